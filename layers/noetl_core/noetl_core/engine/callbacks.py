"""Tokens of `kind: callback`: signed ids, computed when they are needed and stored nowhere (docs/callbacks.md).

A token is `<execution>.<run>.<task run>.<task>.<signature>`. It names one visit of one task; only the holder of the key can
compute the signature (an HMAC). All attempts of a visit have the same token, so a token that was sent out stays valid when a
retry sends the request again.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

from noetl_core.dsl.model import Step
from noetl_core.values.frozen import frozen

SIGNATURE_BYTES = 18
MAX_TOKEN = 300


class Forged(Exception):
    """The token was not made here (HTTP 403). Who acts: the caller."""


@frozen
class CallbackTarget:
    """The task to which a callback token belongs: the visit `task_run` of the step's task number `task`, in run `run_id`."""

    execution_id: str
    run_id: str
    task_run: str
    task: int


def token_of(target: CallbackTarget, key: bytes) -> str:
    """Return the token of a target."""
    body = f"{target.execution_id}.{target.run_id}.{target.task_run}.{target.task}"
    return f"{body}.{_mark(body, key)}"


def target_of(token: str, key: bytes) -> CallbackTarget:
    """Return the callback that a token names. Raises `Forged`."""
    parts = token.split(".")
    if len(token) > MAX_TOKEN or not token.isascii() or len(parts) != 5:
        raise Forged("the token is cut or changed, or another stack issued it")
    body, mark = ".".join(parts[:4]), parts[4]
    if not hmac.compare_digest(mark, _mark(body, key)):
        raise Forged("the token is cut or changed, or another stack issued it")
    return CallbackTarget(parts[0], parts[1], parts[2], int(parts[3]))


def callback_tasks(step: Step) -> tuple[int, ...]:
    """Return the indexes of the callbacks by token in a step."""
    return tuple(n for n, task in enumerate(step.tasks) if task.answered_by_token)


def _mark(body: str, key: bytes) -> str:
    signature = hmac.new(key, b"noetl callback\0" + body.encode(), sha256).digest()[:SIGNATURE_BYTES]
    return urlsafe_b64encode(signature).decode()
