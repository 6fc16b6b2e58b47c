"""Writes the playbooks of one task that notify a webhook or a topic of a failure (docs/failures.md). They are not registered. A
handler that needs a credential therefore names its playbook: the reader of the credential generates the text from that playbook
again, and trusts only an equal text."""

from __future__ import annotations

import json
from typing import Any, Final

from noetl_core.dsl.model import OnFailure
from noetl_core.expr import is_template

ATTEMPTS: Final = 5
FOLDER: Final = "noetl/on-failure/"
FOR: Final = "for"
"""In `metadata`: the digest of the playbook whose failures it handles."""


def source_of(handler: OnFailure, digest: str) -> str:
    """Return the text of the playbook that tells a webhook or a topic of failures of the playbook with `digest`."""
    return json.dumps(_webhook(handler, digest) if handler.webhook is not None else _topic(handler), indent=1)


def made_for(path: str, source: str) -> str | None:
    """Return the digest of the playbook that the text of a handler names; None if it names none."""
    if not path.startswith(FOLDER):
        return None
    try:
        digest = json.loads(source)["metadata"].get(FOR)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return digest if isinstance(digest, str) else None


def is_made_of(source: str, handler: OnFailure | None, digest: str) -> bool:
    """Return whether the text is the one that `handler`, of the playbook with `digest`, makes. A template as address could be led
    elsewhere by the caller that starts the text, so a text with one is never accepted."""
    if handler is None or handler.webhook is None or is_template(handler.webhook):
        return False
    return source == source_of(handler, digest)


def _webhook(handler: OnFailure, digest: str) -> dict[str, Any]:
    task = {
        "name": "post",
        "kind": "http",
        "method": "POST",
        "url": handler.webhook,
        "headers": {"Idempotency-Key": "{{ execution_id }}"},
        "json": "{{ workload.failure }}",
        **({} if handler.credential is None else {"auth": handler.credential}),
    }
    return _playbook("webhook", task, {} if handler.credential is None else {FOR: digest})


def _topic(handler: OnFailure) -> dict[str, Any]:
    what = "('warnings: ' if workload.failure.warnings else 'failed: ')"
    subject = f"{{{{ ({what} ~ workload.failure.path)[:99] }}}}"  # SNS: less than 100 characters
    return _playbook(
        "sns",
        {"name": "publish", "kind": "sns", "topic": handler.sns, "subject": subject, "message": "{{ workload.failure }}"},
        {},
    )


def _playbook(name: str, task: dict[str, Any], about: dict[str, str]) -> dict[str, Any]:
    """Return a playbook of one task, which is tried again where that may help."""
    again = {"do": "retry", "attempts": ATTEMPTS, "backoff": "exponential", "delay": 2}
    retry = {"when": "{{ outcome.status == 'error' and outcome.error.retryable }}", "then": again}
    policy = {"rules": [retry], "on_unmatched": "fail"}
    return {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": f"on failure: {name}", "path": f"{FOLDER}{name}", **about},
        "workload": {"failure": {}},
        "workflow": [{"step": "tell", "tool": [{**task, "spec": {"policy": policy}}]}],
    }
