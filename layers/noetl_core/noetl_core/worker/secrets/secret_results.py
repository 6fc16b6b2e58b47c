"""Outcomes of tasks whose result is declared secret: the secret parts become `Secret`, and are masked everywhere else in the
outcome (docs/language/results.md).

Such a result is then treated like that of `kind: secrets`: templates of the pipeline read it, a suspension seals it, and events,
objects and answers show its mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from noetl_core.dsl.model import Task
from noetl_core.dsl.steps.secret_results import Fields, secret_fields
from noetl_core.engine.outcome import ErrorInfo, Outcome
from noetl_core.expr import MASK, Secret, is_reference
from noetl_core.expr.references import references_in
from noetl_core.expr.views import NO_VIEW, OF_RESPONSE, view
from noetl_core.tools.masking.scrub import Scrubber
from noetl_core.worker.values.task_log import TaskLog

MAX_SECRETS: Final = 1_000
"""The most secret texts that are searched for in the rest of the outcome; with more of them the rest is hidden whole."""
OWN_ERRORS: Final = frozenset({"connection", "timeout", "cancelled", "unsupported", "limit"})
"""Kinds of errors whose messages the tool writes itself, without any text of an answer. A message about a status has such text:
the reason that the service gives."""
PLAIN_HEADERS: Final = frozenset({"retry-after", "content-type", "content-length", "date", "server"})
PLAIN_DETAILS: Final = frozenset({"retry_after"})
"""Texts that policies need for their delays and that reveal nothing."""


def with_secret_result(outcome: Outcome, task: Task) -> Outcome:
    """Return the outcome of a tool with its declared secrets wrapped; unchanged if the task declares none."""
    fields = secret_fields(task)
    if fields is None:
        return outcome
    if outcome.error is not None:
        return _hidden_failure(outcome, outcome.error, task)
    if (outcome.result is None or type(outcome.result) is bool) and () in fields:
        return outcome
    result, whole = _wrap_secret_fields(outcome.result, fields)
    secrets = _secrets_in(result)
    if any(references_in(secret) for secret in secrets):
        why = "is kept by reference, in an object that others can read: let the task return a value, or omit spec.result.secret"
        return replace(Outcome.failed("schema", f"the secret result of {task.called} {why}", retryable=False), meta=outcome.meta)
    scrubber = _scrubber(secrets)
    helpers = (
        {name: _hide_texts(section) for name, section in outcome.helpers.items()}
        if whole
        else _scrubbed(outcome.helpers, scrubber)
    )
    meta = {name: value if name == "log" else _scrubbed(value, scrubber) for name, value in outcome.meta.items()}
    if isinstance(log := meta.get("log"), TaskLog):
        meta["log"] = log.rewritten(scrubber.text if scrubber is not None else lambda _line: MASK)
    return replace(outcome, result=result if whole else _scrubbed(result, scrubber), helpers=helpers, meta=meta)


def _hidden_failure(outcome: Outcome, error: ErrorInfo, task: Task) -> Outcome:
    """Return a failure that shows nothing of the service's answer, because any part of it may be secret."""
    message = error.message
    unsent = task.kind == "http" and error.kind == "schema" and error.code is None  # an input that makes no request
    if error.kind not in OWN_ERRORS and not unsent:
        code = "" if error.code is None else f", {error.code}"
        request = message.partition(": ")[0] if task.kind == "http" else task.kind
        message = f"{request}: failed ({error.kind}{code}); its message is withheld, because the result of the task is secret"
    hidden = replace(error, message=message, details=_hide_texts(error.details))
    helpers = {name: _hide_texts(section) for name, section in outcome.helpers.items()}
    meta = dict(outcome.meta)
    if isinstance(log := meta.get("log"), TaskLog):
        meta["log"] = log.rewritten(lambda _line: MASK)
    return replace(outcome, error=hidden, helpers=helpers, meta=meta)


def _hide_texts(value: Any) -> Any:
    """Return a helper section, or error details, with texts as secrets. Numbers stay readable for policies."""
    if value is None or type(value) in (bool, int, float):
        return value
    if not isinstance(value, Mapping):
        return Secret(value)
    return {name: _hide_field(name, field) for name, field in value.items()}


def _hide_field(name: str, value: Any) -> Any:
    if name == "headers" and isinstance(value, Mapping):
        return {header: text if header.lower() in PLAIN_HEADERS else Secret(text) for header, text in value.items()}
    plain = value is None or name in PLAIN_DETAILS or type(value) in (bool, int, float)
    return value if plain or isinstance(value, Secret) else Secret(value)


def _wrap_secret_fields(result: Any, fields: Fields) -> tuple[Any, bool]:
    """Return the result with its secret fields wrapped, and whether it is secret as a whole: if it is declared so, or if a
    declared field is missing, because the secret may then have another name."""
    if () in fields:
        return _secret(result), True
    sealed = result
    for field in fields:
        sealed, found = _wrap_at(sealed, field)
        if not found and isinstance(sealed, dict) and (body := view(sealed, "body")) is not NO_VIEW:
            body, found = _wrap_at(body, field)
            sealed = {**sealed, "data": body}
        if not found:
            return _secret(result), True
    return sealed, False


def _wrap_at(value: Any, path: tuple[str, ...]) -> tuple[Any, bool]:
    """Return `value` with the part at `path` as a secret, in each item of a list, and whether the part exists."""
    if not path or isinstance(value, Secret):
        return _secret(value), True
    if isinstance(value, list):
        items = [_wrap_at(item, path) for item in value]
        return [item for item, _ in items], all(found for _, found in items)
    if not isinstance(value, dict) or is_reference(value):
        return value, False
    name = path[0]
    if name not in value and view(value, name) is not NO_VIEW:
        name = OF_RESPONSE.get(name, name)
    if name not in value:
        return value, False
    below, found = _wrap_at(value[name], path[1:])
    return {**value, name: below}, found


def _secret(value: Any) -> Secret:
    return value if isinstance(value, Secret) else Secret(value)


def _secrets_in(value: Any) -> list[Secret]:
    if isinstance(value, Secret):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [secret for part in parts for secret in _secrets_in(part)]


def _scrubber(secrets: list[Secret]) -> Scrubber | None:
    """Return a scrubber that finds the secrets in other texts; None if there are too many of them."""
    stack: list[Any] = [secret._value for secret in secrets]
    texts: list[Any] = []
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping | list):
            stack.extend(value.values() if isinstance(value, Mapping) else value)
        elif not isinstance(value, bool):
            texts.append(value)
        if len(texts) > MAX_SECRETS:
            return None
    scrubber = Scrubber()
    scrubber.learn(texts)
    return scrubber


def _scrubbed(value: Any, scrubber: Scrubber | None) -> Any:
    """Return `value` with the secrets in its texts masked and numbers unchanged. Without a scrubber, texts are hidden whole."""
    if value is None or type(value) in (bool, int, float) or isinstance(value, Secret):
        return value
    if isinstance(value, Mapping):
        return {name: _scrubbed(part, scrubber) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(part, scrubber) for part in value]
    if not isinstance(value, str):
        return value
    return Secret(value) if scrubber is None else scrubber.data(value)
