"""Rewrites other names of a boundary in arcs and admission: `output`, `response`, and the events `call.done`, `call.error` and
`step.exit`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from noetl_core.dsl.dialect.replacing import PART, below, of_response, replace_reads, report_two_meanings, set_text
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import scalars_below
from noetl_core.expr import METHODS

EVENT_NAME: Final = re.compile(r"""(['"])(call\.done|call\.error|step\.exit)\1""")
_ASKED: Final = re.compile(r"""(==|!=)\s*(['"])(call\.done|step\.exit)\2""")
_ASKED_FIRST: Final = re.compile(r"""(['"])(?:call\.done|step\.exit)\1\s*(==|!=)\s*(event\s*\.\s*name\b)""")


def rewrite_boundaries(r: Reader, steps: list[Node], *, events: bool, output: bool, response: bool) -> None:
    """Rewrite other names of a boundary."""
    for parts, ended in boundary_places(steps):
        for scalar in (s for part in parts if part is not None for s in scalars_below(part)):
            if events:
                _event_names(r, scalar, {_done(e) for e in ended} or {"step.done", "loop.done"})
            if output:
                words = _words_for(ended)
                if words.get("data") == _BODY:
                    report_two_meanings(r, scalar, _BODY)
                reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] == "output"]
                replace_reads(r, scalar, reads, partial(_boundary, words))
            if response and {_last_kind(step) for step in ended} == {"http"} and all(s.get("loop") is None for s in ended):
                reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] == "response" and len(read.path) > 1]
                replace_reads(r, scalar, reads, _response)


_RESPONSE_STATUS: Final = re.compile(r"""response\s*(?:\.\s*status(?:_code)?\b|\[\s*(['"])status(?:_code)?\1\s*\])""")


def _response(text: str) -> str:
    """Replace `response` at the beginning of `text` where the boundary of an `http` task is read."""
    found = _RESPONSE_STATUS.match(text)
    return _STATUS + text[found.end() :] if found is not None else "event.result" + text[len("response") :]


def boundary_places(steps: list[Node]) -> Iterator[tuple[list[Node | None], list[Node]]]:
    """Yield the parts that read a boundary, with the steps that may have ended: its arcs and the writes at its end read the step
    itself, its admission and arguments the steps that lead to it."""
    sources: dict[str, list[Node]] = {}
    for step in steps:
        for target in _targets(step):
            sources.setdefault(target, []).append(step)
    for step in steps:
        policy = below(step, "spec", "policy")
        name = step.get("step")
        leading = sources.get(str(name.value), []) if name is not None else []
        yield [policy.get("admit") if policy is not None else None, step.get("args"), step.get("input")], leading
        yield [step.get(key) for key in ("next", "set_ctx", "set")], [step]


def _targets(step: Node) -> Iterator[str]:
    router = step.get("next")
    arcs = router.get("arcs") if router is not None else None
    for arc in arcs.value if arcs is not None and isinstance(arcs.value, list) else ():
        target = arc.get("step")
        if target is not None:
            yield str(target.value)


def _done(step: Node) -> str:
    return "loop.done" if step.get("loop") is not None else "step.done"


def _words_for(ended: list[Node]) -> Mapping[str, str]:
    """Return the meanings of the parts of `output` where one of these steps has ended. `data` is the body of a response where an
    http
    task ended, as in its policy; the section of a kind has the parts that a boundary keeps."""
    kinds = {_last_kind(step) if step.get("loop") is None else None for step in ended}
    (kind,) = kinds if len(kinds) == 1 else (None,)
    words = {
        "data": "event.result.data" if kind == "http" else "event.result",
        "result": "event.result",
        "error": "event.error",
        "status": "('ok' if event.status == 'success' else event.status)",
    }
    if kind in _SECTIONS:
        name, fields = _SECTIONS[kind]
        words[name] = _mapping(fields)
    return words


_BODY: Final = "event.result.data"
_STATUS: Final = "(event.result.status if event.status == 'success' else event.error.code)"
"""The status of the answer at the boundary of a step whose last task is `http`."""
_SECTIONS: Final[Mapping[str | None, tuple[str, Mapping[str, str]]]] = {
    "http": (
        "http",
        {
            "status": _STATUS.strip("()"),
            "headers": "event.result.headers",
        },
    ),
    "postgres": ("pg", {"code": "event.error.code", "sqlstate": "event.error.code", "message": "event.error.message"}),
    "python": ("py", {"exception_type": "event.error.code", "message": "event.error.message"}),
}
"""Kind -> the section of its outcomes, and the parts of the section that the boundary of its step keeps."""


def _mapping(fields: Mapping[str, str]) -> str:
    """Return a mapping as an expression."""
    return "({" + ", ".join(f"'{name}': {value}" for name, value in fields.items()) + "})"


def _last_kind(step: Node) -> str | None:
    tool = step.get("tool")
    last = tool.value[-1] if tool is not None and isinstance(tool.value, list) and tool.value else tool
    if last is not None and last.get("kind") is None and isinstance(last.value, dict) and len(last.value) == 1:
        (last,) = last.value.values()
    kind = last.get("kind") if last is not None else None
    return None if kind is None else str(kind.value)


def _boundary(words: Mapping[str, str], text: str) -> str:
    """Replace `output` at the beginning of `text` where an event is read; `words` has the meanings of its parts. A part that it
    does
    not have is left for lint to report."""
    found = PART.match(text)
    part = "" if found is None else found[1] or found[2]
    if found is not None and part in words:
        body = part == "data" and words["data"] == _BODY
        whole = body and of_response(_BODY, "event.result", _STATUS, text, found.end())
        return whole or words[part] + text[found.end() :]
    return text if part and part not in METHODS else _mapping(words) + text[len("output") :]


def _event_names(r: Reader, scalar: Node, done: set[str]) -> None:
    """Replace the older names of a boundary that succeeded (`done`: the possible names) or failed."""
    if "event" not in scalar.value or not EVENT_NAME.search(scalar.value):
        return
    names = sorted(done, reverse=True)
    text: str = scalar.value
    if len(names) > 1:
        quote = "'" if "'" in text else '"'
        some = "[" + ", ".join(quote + n + quote for n in names) + "]"
        text = _ASKED_FIRST.sub(lambda m: f"{m[3]} {_WITHIN[m[2]]} {some}", text)
        text = _ASKED.sub(lambda m: f"{_WITHIN[m[1]]} {some}", text)

    def canonical(m: re.Match[str]) -> str:
        return m[1] + "step.failed" + m[1] if m[2] == "call.error" else ", ".join(m[1] + n + m[1] for n in names)

    set_text(r, scalar, EVENT_NAME.sub(canonical, text))


_WITHIN: Final = {"==": "in", "!=": "not in"}
