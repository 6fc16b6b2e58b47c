"""A case with a small inline limit: what was inline is behind references then, and nothing else may be otherwise (resolution 22)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from noetl_core.dsl.kinds import KINDS
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import path_text, references_in
from noetl_core.log.stored_values import Values
from noetl_core.tools.base import Tool, ToolCall
from noetl_core.tools.registry import ToolRegistry
from tests.conformance import strict_yaml
from tests.conformance.cases import Case
from tests.conformance.compare_histories import ID
from tests.conformance.observations import Observed

SMALL = 64
"""Bytes: about a line. Most of what the cases hand around is over it."""


def with_small_limit(case: Case) -> Case:
    """The case with an inline limit of `SMALL` bytes in all its playbooks."""
    request = dict(case.request)
    if "idempotency_key" in request:  # another request needs another key
        request["idempotency_key"] += "-small"
    return replace(case, text=_limited(case.text), registered=tuple(map(_limited, case.registered)), request=request)


def has_references(seen: Observed) -> bool:
    """Return whether a run kept any value behind a reference."""
    return '"result_ref"' in json.dumps(seen.events)


def _limited(text: str) -> str:
    playbook = strict_yaml.loads(text)
    place = playbook
    for key in ("executor", "spec", "policy", "limits"):
        if place.get(key) is None:
            place[key] = {}
        place = place[key]
    place["max_payload_bytes"] = SMALL
    return yaml.dump(playbook, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=10**6)


class Watched(ToolRegistry):
    """Tools that note what they are given by reference where the language says that it is a value."""

    def __init__(self, tools: dict[str, Tool]) -> None:
        super().__init__(tools)
        self.by_reference: list[str] = []

    def get(self, kind: str) -> Tool:
        return _Watching(super().get(kind), self.by_reference)


class _Watching:
    def __init__(self, tool: Tool, noted: list[str]) -> None:
        self._tool, self._noted = tool, noted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def run(self, call: ToolCall) -> Outcome:
        assert call.references is not None
        kind = KINDS.get(call.kind)
        values = {k: v for k, v in call.inputs.items() if kind is None or k not in kind.references}
        for path, _ in [*references_in(values, call.references.owns), *references_in(call.spec, call.references.owns)]:
            self._noted.append(f"{call.step}.{call.task} is given a reference: {path_text(path)}")
        return self._tool.run(call)


@dataclass(frozen=True)
class Whole:
    """The observations of a run, with the values behind its references."""

    seen: Observed
    values: Values

    def __getitem__(self, what: str) -> str:
        return ID.sub("#", json.dumps(self.values.whole(getattr(self.seen, what)), sort_keys=True))

    @property
    def path(self) -> list[str]:
        return [
            json.dumps([e.get(k) for k in ("name", "step", "task", "iteration", "attempt", "status")]) for e in self.seen.events
        ]


def differences(plain: Whole, small: Whole, *, concurrent: bool) -> Iterator[str]:
    """In what a run with the small limit differs from one with the default: its result, ctx, error, steps, and its path."""
    for what in ("status", "result", "ctx", "error", "steps"):
        if plain[what] != small[what]:
            yield f"{what}: {plain[what][:600]} and, with an inline limit of {SMALL} bytes, {small[what][:600]}"
    paths = [sorted(w.path) if concurrent else w.path for w in (plain, small)]
    if paths[0] != paths[1]:
        at = next((n for n, (a, b) in enumerate(zip(*paths, strict=False)) if a != b), -1)
        yield f"path, event {at}: {paths[0][at:][:3]} and, with an inline limit of {SMALL} bytes, {paths[1][at:][:3]}"
