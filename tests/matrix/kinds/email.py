"""The cases of `email`. The stack's parameter `ToolSenders` names `matrix-*`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from noetl_core.adapters.aws.clients import client
from tests.matrix.cases import Case

leaves_out = {"timeout": "the request has a timeout of its own, and is asked once (`unit/tools/test_email.py`)"}


def prepare() -> dict[str, Any]:
    """Senders that SES has verified: one that tools may send from, and one that no parameter names."""
    ses = client("sesv2")
    for name in ("matrix-a@example.org", "closed-a@example.org"):
        with suppress(ses.exceptions.AlreadyExistsException):
            ses.create_email_identity(EmailIdentity=name)
    return {}


def _mail(sender: str = "matrix-a@example.org", **more: Any) -> dict[str, Any]:
    return {"from": sender, "to": "b@example.org", "subject": "S", "text": "T", **more}


CASES = [
    Case("send", _mail(cc=["C <c@example.org>"], html="<b>T</b>"), gives={"{{ _prev.recipients }}": 2}),
    Case("attached", _mail(attachments=[{"name": "a.csv", "data": [{"a": 1}]}]), gives={"{{ _prev.recipients }}": 1}),
    Case("no_address", _mail(to="nobody"), "errors", fails="schema", retryable=False),
    Case("too_large", _mail(attachments=[{"name": "a", "data": "{{ 'x' * 29500000 }}"}]), "errors", fails="limit", retryable=False),
    Case("large", _mail(text="{{ 'x' * 1000000 }}"), "large result", gives={"{{ _prev.recipients }}": 1}),
    Case("secret", _mail(text="{{ keychain.matrix.token }}"), "secret", gives={"{{ _prev.recipients }}": 1}),
    Case(
        "not_named", _mail("closed-a@example.org"), "rights", fails="auth", retryable=False, on=("stack",),
        says="ToolSenders does not name sender `closed-a@example.org` (it names: matrix-*)",
    ),
    Case("profile", _mail("closed-a@example.org"), "rights", gives={"{{ _prev.recipients }}": 1}, on=("local",)),
]  # fmt: skip
