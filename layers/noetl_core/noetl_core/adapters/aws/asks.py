"""Asks of workers, by invoking the ask function."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

from noetl_core.adapters.aws.clients import code_of
from noetl_core.aws.clients import status_of
from noetl_core.aws.direct_requests import invoke
from noetl_core.engine.records import Ask, Command
from noetl_core.log.codec import decode_command, encode_ask
from noetl_core.ports import AskFailed

ANSWER_S: Final = 5
"""Seconds that the worker waits for an answer. The library does not repeat the call."""
UNREACHABLE = (ConnectTimeoutError, EndpointConnectionError)


class LambdaAsks:
    """`Asks` over the ask function, named by `function`: its name, with that of its alias if it has one."""

    def __init__(self, function: str) -> None:
        self._function = function

    def ask(self, ask: Ask) -> Command | None:
        payload = json.dumps(encode_ask(ask)).encode()
        try:
            body, failed = invoke(self._function, payload, ANSWER_S)
        except ClientError as error:
            is_throttled = code_of(error) == "TooManyRequestsException" or status_of(error) == HTTPStatus.TOO_MANY_REQUESTS
            reason = "throttled" if is_throttled else "refused"
            raise AskFailed(reason, str(error)) from error
        except UNREACHABLE as error:
            raise AskFailed("unreachable", str(error)) from error
        except (BotoCoreError, OSError) as error:
            raise AskFailed("late" if isinstance(error, ReadTimeoutError) else "lost", str(error), may_be_done=True) from error
        if failed:
            raise AskFailed("failed", body[:500].decode(errors="replace"), may_be_done=True)
        return _command(body)


def _command(body: bytes) -> Command | None:
    """Return the command of an answer. Raises `AskFailed` for an answer of another version."""
    try:
        answer: Any = json.loads(body)
        command = answer["command"]
        return None if command is None else decode_command(command)
    except (ValueError, LookupError, TypeError) as error:
        raise AskFailed("old", f"the answer cannot be read: {error}") from error
