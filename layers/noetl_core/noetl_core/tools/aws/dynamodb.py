"""`kind: dynamodb`: gets, puts, updates and deletes items of tables, and queries them (docs/tools/dynamodb.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from botocore.exceptions import ClientError

from noetl_core.aws.clients import code_of
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.actions import action_of, flag_of, option, optional_text, text
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.attributes import read, written
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of, outcome_of
from noetl_core.tools.aws.rights import TABLES
from noetl_core.tools.base import BadInput, ToolCall, ToolFailed
from noetl_core.tools.stopping import stopper

_FAILED_CONDITION: Final = frozenset({"ConditionalCheckFailedException"})


class DynamoDBTool:
    """Inputs `action`: get (default) | put | update | delete | query, `table`, and those of the action."""

    kind = "dynamodb"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        action = _ACTIONS[action_of(call)]
        table = text(call, "table")
        if "/" in table or ":" in table:
            raise BadInput("`table` must be the name of a table, not an ARN")
        rights.check(TABLES, table)
        try:
            with errors_of(call.kind, TABLES, table, passing=_FAILED_CONDITION):
                return Outcome.ok(action(call, {"TableName": table}))
        except ClientError as error:
            raise _refused(call, error, table) from None


def _get(call: ToolCall, request: dict[str, Any]) -> dict[str, Any]:
    answer = _client(call).get_item(**request, Key=_map(call, "key"), ConsistentRead=flag_of(call, "consistent"))
    return {"found": "Item" in answer, "item": shown(answer.get("Item"))}


def _put(call: ToolCall, request: dict[str, Any]) -> dict[str, Any]:
    """Write an item. If its condition fails although the stored item is equal, an earlier attempt wrote it."""
    item = _map(call, "item")
    try:
        answer = _client(call).put_item(**request, **expressions(call), Item=item, **_return_old(call))
    except ClientError as error:
        if _old(error) != item:
            raise
        return {"item": shown(item), "old": None}
    return {"item": shown(item), "old": shown(answer.get("Attributes"))}


def _update(call: ToolCall, request: dict[str, Any]) -> dict[str, Any]:
    answer = _client(call).update_item(
        **request,
        **expressions(call),
        Key=_map(call, "key"),
        UpdateExpression=text(call, "update"),
        **{**_return_old(call), "ReturnValues": "ALL_NEW"},
    )
    return {"item": shown(answer.get("Attributes"))}


def _delete(call: ToolCall, request: dict[str, Any]) -> dict[str, Any]:
    answer = _client(call).delete_item(**request, **expressions(call), Key=_map(call, "key"), **_return_old(call))
    return {"deleted": "Attributes" in answer, "old": shown(answer.get("Attributes"))}


def _query(call: ToolCall, request: dict[str, Any]) -> dict[str, Any]:
    most, limit, stop = option(call, "max_items"), call.inputs.get("limit"), stopper(call)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadInput(f"`limit` must be a whole number from 1, not {limit!r:.60}")
    query = {
        **request,
        **expressions(call),
        "KeyConditionExpression": text(call, "where"),
        "ScanIndexForward": not flag_of(call, "descending"),
        "ConsistentRead": flag_of(call, "consistent"),
    }
    query |= {"IndexName": text(call, "index")} if call.inputs.get("index") is not None else {}
    items: list[Any] = []
    room = max_bytes = option(call, "max_bytes")
    for page in _client(call).get_paginator("query").paginate(**query):
        stop()
        found = [shown(item) for item in page["Items"][: None if limit is None else limit - len(items)]]
        items += found
        room -= sum(len(json.dumps(item, ensure_ascii=False).encode()) for item in found)
        if room < 0:
            raise _too_much(f"more than {max_bytes} bytes: raise `spec.max_bytes`, or ask for a part (`limit`, `where`)")
        if limit is not None and len(items) >= limit:
            break
        if len(items) > most:
            raise _too_much(f"more than {most} items: raise `spec.max_items`, or give a `limit`")
    return {"items": items, "count": len(items)}


def _too_much(words: str) -> ToolFailed:
    return ToolFailed(Outcome.failed("limit", f"dynamodb: {words}", retryable=False))


_ACTIONS: Final[dict[str, Callable[[ToolCall, dict[str, Any]], dict[str, Any]]]] = {
    "get": _get, "put": _put, "update": _update, "delete": _delete, "query": _query,
}  # fmt: skip


def _client(call: ToolCall) -> Any:
    return client("dynamodb", optional_text(call, "region"))


def _return_old(call: ToolCall) -> dict[str, str]:
    return {
        "ReturnValues": "ALL_OLD",
        **({"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if call.inputs.get("condition") else {}),
    }


def _map(call: ToolCall, name: str) -> dict[str, Any]:
    value = call.inputs.get(name)
    if not isinstance(value, Mapping) or not value:
        raise BadInput(f"`{name}` must be a mapping of attributes")
    return {str(attribute): written(each, f"`{name}`") for attribute, each in value.items()}


def expressions(call: ToolCall) -> dict[str, Any]:
    """Return condition and filter, with the names and values that they use."""
    found: dict[str, Any] = {}
    for ours, theirs in (("condition", "ConditionExpression"), ("filter", "FilterExpression")):
        if (expression := optional_text(call, ours)) is not None:
            found[theirs] = expression
    if call.inputs.get("values"):
        found["ExpressionAttributeValues"] = {f":{name.lstrip(':')}": value for name, value in _map(call, "values").items()}
    names = call.inputs.get("names")
    if names:
        if not isinstance(names, Mapping) or not all(isinstance(name, str) for name in names.values()):
            raise BadInput("`names` must be a mapping of texts")
        found["ExpressionAttributeNames"] = {f"#{str(name).lstrip('#')}": attribute for name, attribute in names.items()}
    return found


def shown(item: Mapping[str, Any] | None) -> Any:
    return None if item is None else {name: read(attribute) for name, attribute in item.items()}


def conditional_write(dynamodb: Any, request: Mapping[str, Any]) -> Any:
    """Update an item, or delete it if there is no UpdateExpression. Return the answer; None if the condition did not hold."""
    try:
        return dynamodb.update_item(**request) if "UpdateExpression" in request else dynamodb.delete_item(**request)
    except ClientError as error:
        if code_of(error) not in _FAILED_CONDITION:
            raise
        return None


def _refused(call: ToolCall, error: ClientError, table: str) -> ToolFailed:
    """Return the failure of a condition, with the stored item."""
    failed = outcome_of(call.kind, error, TABLES, table).error
    assert failed is not None
    details = {"item": shown(_old(error))}
    return ToolFailed(Outcome.failed("client_error", failed.message, retryable=False, code=failed.code, details=details))


def _old(error: ClientError) -> Mapping[str, Any] | None:
    """Return the item for which a condition did not hold; botocore's types do not know this field."""
    return cast(Mapping[str, Any] | None, error.response.get("Item"))
