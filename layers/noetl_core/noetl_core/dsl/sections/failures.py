"""Reads the handler that is notified of a failed execution: `executor.spec.on_failure`, and the one-line default of a stack."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.fields.failures import HANDLERS, ON_FAILURE
from noetl_core.dsl.fields.playbook import PLAYBOOK_PATH
from noetl_core.dsl.model import OnFailure
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.versions import BadVersion, split_version

_WHAT: Final = "on_failure of executor"
_ADDRESS: Final = re.compile(r"https?://\S[^\n]*\Z")
_TOPIC: Final = re.compile(r"(arn:[\w-]+:sns:[\w-]*:\d*:)?[\w.-]{1,256}\Z")


def read_on_failure(r: Reader, node: Node | None) -> OnFailure | None:
    """Return the playbook's setting; errors are reported."""
    if node is None:
        return None
    content = r.read(node, ON_FAILURE, _WHAT)
    handlers = [name for name in HANDLERS if content.get(name) not in (None, False)]
    if len(handlers) != 1:
        message = f"{_WHAT} has {' and '.join(handlers) or 'nobody to tell'}"
        r.report("E114" if handlers else "E111", node, message, f"one of {', '.join(HANDLERS)}")
        return None
    if content.get("credential") is not None and handlers != ["webhook"]:
        r.report("E114", (node, "credential"), f"{_WHAT} has credential and {handlers[0]}", "a credential is for a webhook")
    if content.get("also") is not None and handlers == ["disabled"]:
        r.report("E114", (node, "also"), f"{_WHAT} has both `also` and `disabled`", "disabled notifies nobody: keep one")
    for read in (read for scalar in node.scalars() for read in r.reads.get(scalar.value, ())):
        if read.path[0] == "keychain":
            message = f"{'.'.join(read.path)} in {_WHAT}: the control plane holds no secrets"
            r.report("E205", node, message, "write the name of the credential in `credential`")
    found = OnFailure(
        **{name: content.get(name) for name in (*HANDLERS[:3], "credential", "also")}, disabled=handlers == ["disabled"]
    )
    if wrong := problem(found):
        r.report("E115", (node, handlers[0]), f"{handlers[0]} of {_WHAT}: {wrong}")
    return found


def default_handler(text: str) -> OnFailure | None:
    """Return the handler that one line names: a path of a playbook (`ops/alert@prod`), an address, or the ARN of a topic; None
    for an empty line. Raises `ValueError`."""
    text = text.strip()
    if not text:
        return None
    if _ADDRESS.match(text):
        found = OnFailure(webhook=text)
    elif text.startswith("arn:"):
        found = OnFailure(sns=text)
    else:
        found = OnFailure(playbook=text)
    if wrong := problem(found):
        raise ValueError(wrong)
    return found


def problem(handler: OnFailure) -> str:
    """Return the error in a handler; an empty text if there is none."""
    if handler.playbook is not None:
        try:
            path, _ = split_version(handler.playbook)
        except BadVersion as error:
            return str(error)
        return "" if PLAYBOOK_PATH.match(path) else f"{path[:80]!r} is not the path of a playbook"
    if handler.webhook is not None and not _ADDRESS.match(handler.webhook):
        return f"{handler.webhook[:80]!r} is not an address: it begins with https:// or http://"
    if handler.sns is not None and not _TOPIC.match(handler.sns):
        return f"{handler.sns[:80]!r} is neither the name of a topic nor its ARN"
    return ""
