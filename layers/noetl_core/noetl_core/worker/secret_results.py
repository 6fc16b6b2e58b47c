"""What a task whose result is declared secret gives: its secret parts as `Secret`, and nothing of them beside
(docs/language/results.md).

From here on such a result is treated as that of `kind: secrets`: templates of the pipeline read it, a suspension seals it, and
events, objects and answers have its mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from noetl_core.dsl.model import Task
from noetl_core.dsl.secret_results import Fields, secret_fields
from noetl_core.engine.outcome import ErrorInfo, Outcome
from noetl_core.expr import MASK, Secret, is_reference
from noetl_core.expr.references import references_in
from noetl_core.expr.views import NO_VIEW, OF_RESPONSE, view
from noetl_core.tools.scrub import Scrubber
from noetl_core.worker.task_log import TaskLog

SEARCHED: Final = 1_000
"""The most secret texts that are looked for in what else the task gave; with more of them it is hidden whole."""
SAID_BY_TOOL: Final = frozenset({"connection", "timeout", "rate_limit", "cancelled", "unsupported", "limit"})
"""Kinds of errors whose messages are words of the tool itself, which knows no result yet."""
PLAIN_HEADERS: Final = frozenset({"retry-after", "content-type", "content-length", "date", "server"})
PLAIN_DETAILS: Final = frozenset({"retry_after"})
"""Texts that policies wait by, and that tell nothing."""


def kept_secret(outcome: Outcome, task: Task) -> Outcome:
    """Return the outcome of a tool as the pipeline has it."""
    fields = secret_fields(task)
    if fields is None:
        return outcome
    if outcome.error is not None:
        return _failed(outcome, outcome.error, task)
    if (outcome.result is None or type(outcome.result) is bool) and () in fields:
        return outcome
    result, whole = _sealed(outcome.result, fields)
    secrets = _secrets_in(result)
    if any(references_in(secret) for secret in secrets):
        why = "is kept by reference, in an object that others can read: take it as a value, or without spec.result.secret"
        return replace(Outcome.failed("schema", f"the secret result of {task.called} {why}", retryable=False), meta=outcome.meta)
    scrubber = _scrubber(secrets)
    helpers = (
        {name: _wrapped(section) for name, section in outcome.helpers.items()} if whole else _scrubbed(outcome.helpers, scrubber)
    )
    meta = {name: value if name == "log" else _scrubbed(value, scrubber) for name, value in outcome.meta.items()}
    if isinstance(log := meta.get("log"), TaskLog):
        meta["log"] = log.rewritten(scrubber.text if scrubber is not None else lambda _line: MASK)
    return replace(outcome, result=result if whole else _scrubbed(result, scrubber), helpers=helpers, meta=meta)


def _failed(outcome: Outcome, error: ErrorInfo, task: Task) -> Outcome:
    """Return a failure that shows nothing of what the other side answered: which part of it is secret, nobody knows."""
    message = error.message
    if task.kind != "http" and error.kind not in SAID_BY_TOOL:
        code = "" if error.code is None else f", {error.code}"
        message = f"{task.kind}: failed ({error.kind}{code}); its words are withheld, because the result of the task is secret"
    hidden = replace(error, message=message, details=_wrapped(error.details))
    helpers = {name: _wrapped(section) for name, section in outcome.helpers.items()}
    meta = dict(outcome.meta)
    if isinstance(log := meta.get("log"), TaskLog):
        meta["log"] = log.rewritten(lambda _line: MASK)
    return replace(outcome, error=hidden, helpers=helpers, meta=meta)


def _wrapped(value: Any) -> Any:
    """Return a section of a helper, or details of an error, with its texts secret; numbers stay, for policies and readers."""
    if value is None or type(value) in (bool, int, float):
        return value
    if not isinstance(value, Mapping):
        return Secret(value)
    return {name: _field(name, field) for name, field in value.items()}


def _field(name: str, value: Any) -> Any:
    if name == "headers" and isinstance(value, Mapping):
        return {header: text if header.lower() in PLAIN_HEADERS else Secret(text) for header, text in value.items()}
    plain = value is None or name in PLAIN_DETAILS or type(value) in (bool, int, float)
    return value if plain or isinstance(value, Secret) else Secret(value)


def _sealed(result: Any, fields: Fields) -> tuple[Any, bool]:
    """Return the result with its secret fields as secrets, and whether it is secret as a whole: where it is declared so, and
    where it lacks a field - better too much than what has another name here."""
    if () in fields:
        return _secret(result), True
    sealed = result
    for field in fields:
        sealed, found = _at(sealed, field)
        if not found and isinstance(sealed, dict) and (body := view(sealed, "body")) is not NO_VIEW:
            body, found = _at(body, field)
            sealed = {**sealed, "data": body}
        if not found:
            return _secret(result), True
    return sealed, False


def _at(value: Any, path: tuple[str, ...]) -> tuple[Any, bool]:
    """Return `value` with what stands at `path` as a secret, in each item of a list; and whether it is there."""
    if not path or isinstance(value, Secret):
        return _secret(value), True
    if isinstance(value, list):
        items = [_at(item, path) for item in value]
        return [item for item, _ in items], all(found for _, found in items)
    if not isinstance(value, dict) or is_reference(value):
        return value, False
    name = path[0]
    if name not in value and view(value, name) is not NO_VIEW:
        name = OF_RESPONSE.get(name, name)
    if name not in value:
        return value, False
    below, found = _at(value[name], path[1:])
    return {**value, name: below}, found


def _secret(value: Any) -> Secret:
    return value if isinstance(value, Secret) else Secret(value)


def _secrets_in(value: Any) -> list[Secret]:
    if isinstance(value, Secret):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [secret for part in parts for secret in _secrets_in(part)]


def _scrubber(secrets: list[Secret]) -> Scrubber | None:
    """Return what finds the secrets in other texts; None where there are too many of them."""
    stack: list[Any] = [secret._value for secret in secrets]
    texts: list[Any] = []
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping | list):
            stack.extend(value.values() if isinstance(value, Mapping) else value)
        elif not isinstance(value, bool):
            texts.append(value)
        if len(texts) > SEARCHED:
            return None
    scrubber = Scrubber()
    scrubber.learn(texts)
    return scrubber


def _scrubbed(value: Any, scrubber: Scrubber | None) -> Any:
    """Return `value` with the secrets in its texts masked, numbers as they are; hidden where they cannot be looked for."""
    if value is None or type(value) in (bool, int, float) or isinstance(value, Secret):
        return value
    if isinstance(value, Mapping):
        return {name: _scrubbed(part, scrubber) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(part, scrubber) for part in value]
    if not isinstance(value, str):
        return value
    return Secret(value) if scrubber is None else scrubber.text(value)
