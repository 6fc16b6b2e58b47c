"""The words of templates with a sentence about each: namespaces and their fields, functions, filters, tests."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.tests import TESTS as JINJA_TESTS

from noetl_core.expr import FILTERS, FUNCTIONS, TESTS

NAMES_PAGE: Final = "language/names.md"
EXPRESSIONS_PAGE: Final = "language/expressions.md"
FILTERS_PAGE: Final = f"{EXPRESSIONS_PAGE}#filters-and-tests"

ROOTS: Final = {
    "workload": "The merged inputs, which never change.",
    "ctx": "The state of the execution, shared by its steps.",
    "args": "The arguments of the token that started this run, merged over the step's `args`.",
    "input": "The same as `args`.",
    "steps": "The last finished run of each step: `steps.<name>.result`, `.status`, `.loop`.",
    "execution_id": "The id of the execution, as decimal text.",
    "trigger": "The trigger and the delivery that started the execution.",
    "job": "`job.execution_id` and `job.uuid`: the id of the execution.",
    "iter": "The variables of one iteration; outside loops, of one run.",
    "keychain": "The credentials of the playbook. The control plane does not see them.",
    "callback": "The address and the token that answer this callback.",
    "_prev": "The result of the previous task that ended ok.",
    "_outcome": "The whole outcome of the previous task, ok or error.",
    "_task": "The name of the task.",
    "_attempt": "The attempt of the task, from 1.",
    "outcome": "The outcome of the task that has just ended.",
    "event": "The boundary: the end of the step's run, or of its loop.",
    "output": "The result under other dialects' names: `output.status`, `output.data`, `output.error`.",
    "loop": "The state of a `for` of the template: `loop.index`, `loop.first`, `loop.last`, `loop.length`.",
}
"""Names that templates read, by place."""

FIELDS: Final[dict[str, dict[str, str]]] = {
    "outcome": {
        "status": "`ok` or `error`.",
        "result": "The result of the task.",
        "error": "The error: `kind`, `message`, `retryable`, `code`, `details`.",
        "meta": "The attempt, the duration, and the time of the outcome.",
        "http": "The status and headers of the response (kind `http`).",
        "pg": "The code of the database error (kind `postgres`).",
        "py": "The exception of the program (kind `python`).",
    },
    "outcome.error": {
        "kind": "The kind of the error, such as `timeout` or `rate_limit`.",
        "message": "The message of the error.",
        "retryable": "True if another attempt may succeed.",
        "code": "The code that the service gave.",
        "details": "Further data about the error.",
    },
    "outcome.http": {"status": "The status of the response.", "headers": "The headers of the response, in any letter case."},
    "event": {
        "name": "`step.done`, `loop.done` or `step.failed`.",
        "status": "`success` or `error`.",
        "result": "The result of the step.",
        "error": "The error, after a failure.",
        "loop": "`{total, succeeded, failed}`, after a loop.",
        "step": "The name of the step.",
        "run_id": "The id of its run.",
    },
    "event.error": {"kind": "The kind of the error.", "message": "The message of the error."},
    "event.loop": {"total": "Iterations.", "succeeded": "Iterations that ended ok.", "failed": "Iterations that failed."},
    "job": {"execution_id": "The id of the execution.", "uuid": "The same as `execution_id`."},
    "trigger": {
        "kind": "The source of the trigger.",
        "name": "The name of the trigger.",
        "id": "The id of the delivery.",
        "scheduled_at": "The time of the occurrence.",
        "previous_at": "The time of the previous occurrence.",
        "event": "The event, message, request or upload.",
    },
    "iter": {"index": "The index of the iteration, from 0.", "parent": "The variables of the outer loop."},
    "loop": {
        "index": "The round, from 1.",
        "index0": "The round, from 0.",
        "first": "True in the first round.",
        "last": "True in the last round.",
        "length": "The number of rounds.",
    },
}
"""Fields of namespaces, by their path. `_outcome` has those of `outcome`."""
STEP_FIELDS: Final = {
    "result": "The result of the step: the result of its last task; of a loop, the list of results.",
    "status": "`ok` or `error`.",
    "loop": "`{total, succeeded, failed}`, of a loop.",
}

_SENTENCE: Final = re.compile(r"(?<!i\.e)(?<!e\.g)\. ")
_FUNCTIONS: Final = {
    "range": "range(stop) or range(start, stop, step): whole numbers, at most 1,000,000.",
    "dict": "dict(a=1, b=2): a mapping.",
    "list": "list(value): the items as a list.",
    "len": "len(value): the number of items or characters.",
    "min": "min(list) or min(a, b): the least value.",
    "max": "max(list) or max(a, b): the greatest value.",
    "sum": "sum(list, start=0): the sum of the items.",
    "round": "round(number, ndigits): rounded as Python does.",
    "abs": "abs(number): without its sign.",
    "str": "str(value): the value as text.",
    "int": "int(value, base=10): the value as a whole number; an error if it is not one.",
    "float": "float(value): the value as a number; an error if it is not one.",
    "bool": "bool(value): true or false.",
    "sorted": "sorted(list, reverse=false): the items in order.",
    "zip": "zip(a, b): lists of the items at the same place.",
    "enumerate": "enumerate(list, start=0): lists of index and item.",
    "namespace": "namespace(a=1): values that a `set` within a `for` may change.",
    "joiner": "joiner(', '): a function that gives nothing at first, and then the separator.",
}
_FILTERS: Final = {
    "map": "map(attribute='name') or map('upper'): a field of each item, or each item after a filter.",
    "select": "select('odd'): the items that pass a test.",
    "reject": "reject('odd'): the items that do not pass a test.",
    "selectattr": "selectattr('status', 'equalto', 'ok'): the items whose field passes a test, or is true.",
    "rejectattr": "rejectattr('status', 'equalto', 'ok'): the items whose field does not pass a test.",
    "format": "format(a, b): the text with its %s replaced.",
    "slice": "slice(slices, fill_with): the items as a number of lists.",
    "tojson": "tojson(indent): the value as JSON text.",
    "fromjson": "fromjson: the value of JSON text.",
    "b64encode": "b64encode: text in base64.",
    "b64decode": "b64decode: the text that base64 encodes.",
    "bool": "bool: true for `true`, `yes`, `on`, `1`.",
    "regex_match": "regex_match(pattern, ignorecase, multiline): true if the text begins with the pattern.",
    "regex_search": "regex_search(pattern, ignorecase, multiline): the match, its group or groups, or null.",
    "regex_findall": "regex_findall(pattern, ignorecase, multiline): all matches.",
    "regex_replace": "regex_replace(pattern, replacement, ignorecase, multiline): the text with matches replaced.",
    "parse_datetime": "parse_datetime(format): ISO 8601 text in UTC.",
    "format_datetime": "format_datetime(format): the time in a format of strftime.",
    "to_epoch": "to_epoch(unit='s'): seconds since 1970, or milliseconds with 'ms'.",
    "from_epoch": "from_epoch(unit='s'): ISO 8601 text of seconds since 1970.",
    "add_seconds": "add_seconds(seconds): a later time.",
    "date_add": "date_add(days, hours, minutes, seconds, weeks): a later time.",
}


@lru_cache(maxsize=1)
def functions() -> dict[str, str]:
    """Return the functions of templates, with a sentence about each."""
    return {name: _FUNCTIONS.get(name, name) for name in FUNCTIONS}


@lru_cache(maxsize=1)
def filters() -> dict[str, str]:
    """Return the filters of templates, with a sentence about each."""
    return {name: _FILTERS.get(name) or _of_jinja(name, JINJA_FILTERS) for name in sorted(FILTERS)}


@lru_cache(maxsize=1)
def tests() -> dict[str, str]:
    """Return the tests of templates (`is ...`) that have a name, with a sentence about each."""
    return {name: _of_jinja(name, JINJA_TESTS) for name in sorted(TESTS) if name.isidentifier()}


def _of_jinja(name: str, known: Mapping[str, Any]) -> str:
    """Return call and first sentence of a filter or test of Jinja2."""
    run: Callable[..., Any] | None = known.get(name)
    doc = inspect.getdoc(run) if run is not None else None
    if run is None or doc is None:
        return name
    try:
        taken = [p for p in inspect.signature(run).parameters.values() if p.name not in ("context", "eval_ctx", "environment")]
    except ValueError:
        taken = []
    named = (p for p in taken[1:] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    call = ", ".join(p.name if p.default in (p.empty, None) else f"{p.name}={p.default!r}" for p in named)
    text = re.sub(r"\s+", " ", re.sub(r":\w+:`([^`]*)`", r"`\1`", doc.partition("\n\n")[0])).strip().rstrip(":")
    sentence = text if len(text) < 200 else f"{_SENTENCE.split(text, maxsplit=1)[0]}."
    return f"{name}({call}): {sentence}" if call else f"{name}: {sentence}"
