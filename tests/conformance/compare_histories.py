"""Compares the histories of two wirings, up to ids, times and the order of concurrent work."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noetl_core.views.explain.replay import OF_ASKS
from tests.conformance.observations import Observed

ID = re.compile(r"\b(?:[a-z][0-9a-f]{24}|[0-9]{14,19})\b")
"""Ids of executions are below 2^63: one of 100,000 that are derived has fewer than 14 digits."""
WHERE = re.compile(r"(there is no credential '[^']*') (?:on this machine|in this stack): .*")
"""The advice of an error about the place of a credential, which differs on a stack."""
VOLATILE = frozenset(
    {"as_of", "seq", "worker", "duration_ms", "started_at", "finished_at", "at", "until", "lease_until", "log", "request_id"}
    | {"us", "total_us", "max_us"}  # durations in aggregates
)
"""Fields of `data` that hold times, places and positions in the log."""
FIELDS = ("source", "name", "event_type", "entity", "status", "step", "task", "iteration", "attempt")


def differences(one: Observed, other: Observed, *, concurrent: bool) -> Iterator[str]:
    """Yield the differences between the two."""
    for what in ("refused", "status", "result", "ctx", "error", "steps"):
        left, right = (ID.sub("#", json.dumps(_plain(getattr(seen, what)), sort_keys=True)) for seen in (one, other))
        if left != right:
            yield f"{what}: {left[:300]} and {right[:300]}"
    if concurrent:
        mine, theirs = _streams(one.events), _streams(other.events)
        for only, where in ((mine - theirs, "first"), (theirs - mine, "second")):
            for stream in only:
                yield f"only the {where} has {stream[:600]}"
        return
    first, second = list(_ordered(one.events)), list(_ordered(other.events))
    for i, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            at = max(0, next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0) - 200)
            yield f"event {i}: {a[:150]} ... {a[at : at + 400]} and {b[at : at + 400]}"
            return
    if len(first) != len(second):
        longer = first if len(first) > len(second) else second
        yield f"{len(first)} events and {len(second)}; the first of the others is {longer[min(len(first), len(second))][:300]}"


def _ordered(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each event without times, its ids numbered in the order in which they appear."""
    names: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"#{len(names)}")

    for event in events:
        ids = {k: event[k] for k in ("entity_id", "step_run_id", "task_run_id") if k in event}
        yield ID.sub(named, json.dumps([{k: event[k] for k in FIELDS if k in event}, ids, _data(event)], sort_keys=True))


def _streams(events: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """The events of each run and iteration in their order; those of the control plane each for itself."""
    streams: dict[Any, list[str]] = defaultdict(list)
    for n, event in enumerate(events):
        shown = json.dumps([{k: event[k] for k in FIELDS if k in event}, _data(event)], sort_keys=True)
        worker = event["source"] == "worker"
        key = (event.get("step_run_id"), str(event.get("iteration"))) if worker else n
        streams[key].append(ID.sub("#", shown))
    return Counter("; ".join(s) for s in streams.values())


def _data(event: Mapping[str, Any]) -> Any:
    """The data without the claims of workers to runs: a run may be claimed in its schedule, or by its worker alone."""
    return _plain({k: v for k, v in event["data"].items() if k not in OF_ASKS.get(event["name"], ())})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: "#" if k == "delay" and _drawn(v) else _plain(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return WHERE.sub(r"\1", value) if isinstance(value, str) else value


def _drawn(delay: Any) -> bool:
    """Return whether a delay has jitter: it is drawn from the run's id."""
    return isinstance(delay, float) and round(delay, 3) != delay
