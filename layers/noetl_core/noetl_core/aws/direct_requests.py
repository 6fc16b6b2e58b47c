"""Frequent requests, in a third of the processor time that botocore's clients take (docs/decisions.md, "Frequent requests bypass
botocore's clients").

`put_item`, `get_item`, `delete_item`, `query` and `send_message_batch` send the first attempt of a request from here. They
understand two answers: success and a failed condition. With any other answer, a broken connection or a proxy they leave the
request to botocore's client, which sends it, or sends it again, with its retries and its errors. So a request may be sent
once more than botocore alone would send it, with the effect of botocore's own retries: a caller whose conditional write was
done but not answered sees its condition fail. Binary values must be bytes. `invoke` sends its request once.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote

from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from noetl_core.aws.clients import client
from noetl_core.aws.signed_requests import Answered, Endpoint, NotConnected, NotSent, endpoint

Answer = dict[str, Any]
Trace = Callable[[str, str, Mapping[str, Any], str], AbstractContextManager[Any]]

CONDITION_FAILED: Final = "ConditionalCheckFailedException"
trace: Trace | None = None
"""The context of each request if requests are traced, called with the service, the operation, its arguments and the Region. It
gives a function that notes the status of the answer, or None. If it raises `NotAnswered`, the request is left to botocore."""
_METHODS: Final = {
    "PutItem": "put_item",
    "GetItem": "get_item",
    "DeleteItem": "delete_item",
    "Query": "query",
    "SendMessageBatch": "send_message_batch",
}


class NotAnswered(Exception):
    """The request is botocore's: it was not sent from here, or this module does not understand its answer."""


def put_item(**request: Any) -> Answer:
    """Put an item, like `put_item` of botocore's client. Raises its errors."""
    return _send("dynamodb", "PutItem", request)


def get_item(**request: Any) -> Answer:
    """Get an item, like `get_item` of botocore's client. Raises its errors."""
    return _send("dynamodb", "GetItem", request)


def delete_item(**request: Any) -> Answer:
    """Delete an item, like `delete_item` of botocore's client. Raises its errors."""
    return _send("dynamodb", "DeleteItem", request)


def query(**request: Any) -> Answer:
    """Query items, like `query` of botocore's client. Raises its errors."""
    return _send("dynamodb", "Query", request)


def send_message_batch(**request: Any) -> Answer:
    """Send messages without attributes, like `send_message_batch` of botocore's client. Raises its errors."""
    return _send("sqs", "SendMessageBatch", request)


_ITEMS: Final = ("Item", "Attributes", "LastEvaluatedKey")
_TARGETS: Final = {"dynamodb": "DynamoDB_20120810", "sqs": "AmazonSQS"}


def _send(service: str, operation: str, request: Mapping[str, Any]) -> Answer:
    botocore_client = client(service)
    there = endpoint(botocore_client)
    answered = _first_attempt(there, service, operation, request) if there.is_usable else None
    if answered is not None:
        try:
            return _answer(operation, answered)
        except NotAnswered:
            there.leave()
    answer: Answer = getattr(botocore_client, _METHODS[operation])(**request)
    return answer


def _first_attempt(there: Endpoint, service: str, operation: str, request: Mapping[str, Any]) -> Answered | None:
    """Return what the service answers; None if the request is botocore's."""
    headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"{_TARGETS[service]}.{operation}"}
    try:
        body = json.dumps(request, default=_encoded, separators=(",", ":")).encode()
    except (TypeError, ValueError):
        return None  # botocore says which argument is wrong
    try:
        with _traced(there, operation, request) as note:
            answered = there.post(operation, body, headers)
            if note is not None:
                note(answered.status)
    except NotAnswered:
        return None
    except (NotSent, OSError, HTTPException, BotoCoreError):
        there.leave()
        return None
    return answered


def _traced(there: Endpoint, operation: str, request: Mapping[str, Any]) -> AbstractContextManager[Any]:
    return nullcontext() if trace is None else trace(there.service, operation, request, there.region)


def _encoded(binary: bytes) -> str:
    return b64encode(binary).decode()


def _answer(operation: str, answered: Answered) -> Answer:
    """Return the answer as botocore would. Raises `ClientError` for a failed condition, `NotAnswered` for any other error."""
    checksum = answered.headers.get("x-amz-crc32")
    if checksum is not None and checksum != str(zlib.crc32(answered.content)):
        raise NotAnswered
    try:
        answer: Answer = json.loads(answered.content)
        for item in (*map(answer.get, _ITEMS), *answer.get("Items", ())):
            if item is not None:  # texts and numbers, which are most values, stay as they are
                item.update({name: _value(value) for name, value in item.items() if "S" not in value and "N" not in value})
    except (ValueError, TypeError, AttributeError):
        raise NotAnswered from None
    if answered.status == 200:
        return answer
    if str(answer.get("__type")).rpartition("#")[2] != CONDITION_FAILED:
        raise NotAnswered
    message = str(answer.get("message", answer.get("Message", "")))
    raise ClientError(_refusal(CONDITION_FAILED, message, answered.status, answer), operation)


def _refusal(code: str, message: str, status: int, more: Mapping[str, Any]) -> Any:
    """Return a refusal as botocore's `ClientError` has it."""
    return {**more, "Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}


def _value(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an attribute value whose binary parts are bytes."""
    ((kind, content),) = value.items()
    if kind == "B":
        return {"B": b64decode(content, validate=True)}
    if kind == "BS":
        return {"BS": [b64decode(each, validate=True) for each in content]}
    if kind == "L":
        return {"L": [_value(each) for each in content]}
    if kind == "M":
        return {"M": {name: _value(each) for name, each in content.items()}}
    return value


def invoke(function: str, payload: bytes, answer_s: int) -> tuple[bytes, bool]:
    """Invoke a Lambda function once, and wait up to `answer_s` seconds; return its answer, and whether it failed.

    Raises `ClientError` for a refusal, `EndpointConnectionError` if there is no connection, and other errors of botocore's after
    which the function may have run.
    """
    lambdas = client("lambda", answer_s=answer_s)
    there = endpoint(lambdas)
    try:
        with _traced(there, "Invoke", {}) as note:
            answered = there.post("Invoke", payload, {}, f"/2015-03-31/functions/{quote(function, safe='')}/invocations")
            if note is not None:
                note(answered.status)
    except NotConnected as error:
        there.leave()
        raise EndpointConnectionError(endpoint_url=function) from error
    except (NotSent, NotAnswered):
        answer = lambdas.invoke(FunctionName=function, Payload=payload)
        return answer["Payload"].read(), "FunctionError" in answer
    except TimeoutError as error:
        there.leave()
        raise ReadTimeoutError(endpoint_url=function, error=error) from error
    except (OSError, HTTPException) as error:
        there.leave()
        raise ConnectionClosedError(endpoint_url=function) from error
    if answered.status >= 300:
        code = str(answered.headers.get("x-amzn-errortype", "")).partition(":")[0]
        message = answered.content[:500].decode(errors="replace")
        raise ClientError(_refusal(code, message, answered.status, {}), "Invoke")
    return answered.content, "x-amz-function-error" in answered.headers
