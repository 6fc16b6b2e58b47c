"""Records a case's observations on a wiring, and judges them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.testing import match
from tests.conformance.cases import Case


@dataclass(slots=True)
class Observed:
    """`diagnostics` are those of validation; `refused` is the answer to a request that was not accepted (`{status, code, ...}`);
    the rest is the summary of the execution and its envelopes. `replay` are decisions that came out differently when the log
    was replayed."""

    execution_id: str = ""
    diagnostics: list[Mapping[str, Any]] = field(default_factory=list)
    refused: Mapping[str, Any] | None = None
    status: str | None = None
    result: Any = None
    ctx: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    steps: Mapping[str, Any] | None = None
    events: list[Mapping[str, Any]] = field(default_factory=list)
    replay: list[Mapping[str, Any]] = field(default_factory=list)


def problems(case: Case, seen: Observed) -> Iterator[str]:
    """In what `seen` is not what the case expects."""
    expect = case.expect
    yield from _diagnostics(expect.get("diagnostics", []), seen)
    if "refused" in expect:
        yield from match.differences(expect["refused"], seen.refused, "the refusal", subset=True)
    elif seen.refused is not None and case.runs:
        yield f"the request was refused: {json.dumps(seen.refused)}"
    if not case.runs:
        return
    for what in ("status", "result"):
        if what in expect:
            yield from match.differences(expect[what], getattr(seen, what), what)
    if "ctx" in expect:
        yield from match.differences(expect["ctx"], seen.ctx, "ctx")
    for what in ("error", "steps"):
        if what in expect:
            yield from match.differences(expect[what], getattr(seen, what), what, subset=True)
    yield from _events(expect, seen)
    for difference in seen.replay:
        yield f"replaying the log decides differently: {json.dumps(difference)[:600]}"


def _events(expect: Mapping[str, Any], seen: Observed) -> Iterator[str]:
    if "events" in expect:
        wrong = match.history(expect["events"], seen.events)
        if wrong is not None:
            yield f"{wrong}\n  the history is\n{shown(seen.events)}"
    for pattern in expect.get("never", []):
        if any(match.is_event(pattern, e) for e in seen.events):
            yield f"there is an event {pattern}\n{shown(seen.events)}"
    for pattern, number in expect.get("count", {}).items():
        found = sum(match.is_event(pattern, e) for e in seen.events)
        if found != number:
            yield f"{found} events are {pattern}, expected {number}\n{shown(seen.events)}"


def _diagnostics(expected: list[Any], seen: Observed) -> Iterator[str]:
    """Every error must be expected; warnings and notes may be there unsaid."""
    wanted = [{"code": e} if isinstance(e, str) else e for e in expected]
    left = list(seen.diagnostics)
    for pattern in wanted:
        found = next((d for d in left if not any(match.differences(pattern, d, subset=True))), None)
        if found is None:
            yield f"no diagnostic {json.dumps(pattern)}; there are {_codes(left) or 'none'}"
        else:
            left.remove(found)
    errors = [d for d in left if d["severity"] == "error"]
    if errors:
        yield f"not expected: {_codes(errors)}"


def _codes(diagnostics: list[Mapping[str, Any]]) -> str:
    return "; ".join(f"{d['code']} line {d['line']}: {d['message']}" for d in diagnostics)


def shown(events: list[Mapping[str, Any]]) -> str:
    """A history, a line an event."""
    lines = []
    for e in events:
        place = ".".join(str(e[k]) for k in ("step", "task") if k in e)
        more = {k: e[k] for k in ("iteration", "attempt") if k in e}
        lines.append(f"    {e['name']} {place} {e['status']} {json.dumps(more)} {json.dumps(e['data'])[:240]}")
    return "\n".join(lines)
