"""What a run's stream says has already happened: the fold a worker goes on from after a suspension or a takeover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl_core.engine.records import Commit, Event

Path = tuple[int, ...]


@dataclass(slots=True)
class Past:
    """Per iteration path: collections, task events of unfinished passes, finished iterations; and waits and their mail."""

    as_of: int | None = None
    takeovers: int = 0
    collections: dict[Path, Mapping[str, Any]] = field(default_factory=dict)
    tasks: dict[Path, list[Event]] = field(default_factory=dict)
    finished: dict[Path, Mapping[str, Any]] = field(default_factory=dict)
    begun: set[Path] = field(default_factory=set)
    waits: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    mail: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    sliced: Mapping[str, Any] | None = None

    @property
    def empty(self) -> bool:
        return not (self.tasks or self.finished or self.collections or self.waits)


def fold_past(commits: Iterable[Commit]) -> Past:
    """Fold the commits of a run stream."""
    past = Past()
    for commit in commits:
        for event in commit.events:
            _apply(past, event)
    return past


def _apply(past: Past, event: Event) -> None:
    d = event.data
    path = tuple(d.get("path") or ())
    match event.name:
        case "StepStarted":
            past.as_of = d["as_of"] if past.as_of is None else past.as_of
            past.takeovers += 1 if d.get("takeover") else 0
        case "StepResumed":
            deliver(past, d.get("mail") or ())
        case "LoopCollected":
            past.collections[path] = d
        case "LoopIterationStarted":
            past.begun.add(path)
        case "TaskProcessed":
            past.tasks.setdefault(path, []).append(event)
        case "LoopIterationCompleted":
            past.finished[path] = d
            past.tasks.pop(path, None)
            past.begun.discard(path)
            inner = [p for p in past.finished if len(p) > len(path) and p[: len(path)] == path]
            for done in inner:
                del past.finished[done]
        case "StepSuspended":
            past.waits.update({w["wait_id"]: w for w in d.get("waits", ())})
            past.sliced = d.get("loop") or past.sliced
        case _:
            pass  # TaskStarted, TaskRetried: for readers; they change nothing here


def deliver(past: Past, mail: Iterable[Mapping[str, Any]]) -> None:
    """Take the mail of a resume."""
    past.mail.update({m["wait_id"]: m for m in mail})
