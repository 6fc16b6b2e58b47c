"""Folds the stream of a run into its history, from which a worker continues after a suspension or a takeover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from noetl_core.engine.fold.aggregates import RunAggregates
from noetl_core.engine.records import (
    Commit,
    Event,
    RunEvent,
    StreamId,
    Tally,
    count_takeovers_without_progress,
    envelopes_of,
    run_events,
)
from noetl_core.events.event import TaskEvent
from noetl_core.events.runs import LoopCollected, LoopFrameClaimed, LoopIterationCompleted
from noetl_core.events.shapes import Mail, Wait
from noetl_core.expr import LOST, MASK, Secret, is_reference
from noetl_core.log.history import commits_of
from noetl_core.ports import EventStore
from noetl_core.values.frozen import mutable
from noetl_core.values.result_refs import MASKED_NAME

Path = tuple[int, ...]


@mutable
class RunHistory:
    """The fold of a run's stream: by iteration path its collections, the task events of unfinished passes and the finished
    iterations; and its waits and their mail.

    `finished` maps the path of a loop to its finished iterations by index. Those of an inner loop are dropped when the enclosing
    iteration has finished. `last` is the newest commit, None for an empty stream.
    """

    as_of: int | None = None
    takeovers: int = 0
    takeovers_without_progress: int = 0
    """Takeovers since the last outcome."""
    worker: str = ""
    """The worker of the newest activation."""
    collections: dict[Path, LoopCollected] = field(default_factory=dict)
    frames: list[LoopFrameClaimed] = field(default_factory=list)
    """The frames that a cursor loop claimed, in order."""
    tasks: dict[Path, list[TaskEvent]] = field(default_factory=dict)
    finished: dict[Path, dict[int, LoopIterationCompleted]] = field(default_factory=dict)
    begun: set[Path] = field(default_factory=set)
    waits: dict[str, Wait] = field(default_factory=dict)
    mail: dict[str, Mail] = field(default_factory=dict)
    outside: dict[tuple[str, int], Wait] = field(default_factory=dict)
    """The newest waits of outside work, by task run and attempt without an outcome."""
    sealed: str | None = None
    """The encrypted secrets of the newest suspension; `sealed_at` is how many task events of each pass came before it."""
    sealed_at: dict[Path, int] = field(default_factory=dict)
    last: Commit | None = None
    masked: bool = False
    """True if masks in its events represent secrets that this worker does not have."""
    events: int = 0
    """Number of envelopes of the stream."""
    aggregates: RunAggregates = field(default_factory=RunAggregates)
    """Aggregates of the stream itself, without the history that a redrive carries over."""
    stated: Commit | None = None
    """The newest commit with aggregates."""

    @property
    def tally(self) -> Tally:
        return Tally(self.events, self.takeovers_without_progress)

    @property
    def next_seq(self) -> int:
        """Return the first free position of the stream."""
        return 0 if self.last is None else self.last.seq + 1

    @property
    def newest(self) -> str:
        """Return the name of the newest event, or an empty text if the newest commit is a heartbeat or the stream is empty."""
        return self.last.events[-1].name if self.last is not None and self.last.events else ""


def read_run_history(store: EventStore, stream: StreamId, history: RunHistory | None = None) -> RunHistory:
    """Read the stream of a run and fold it, on top of `history` if there is one."""
    return fold_run_history(commits_of(store, stream), history)


def fold_run_history(commits: Iterable[Commit], history: RunHistory | None = None) -> RunHistory:
    """Fold the commits of a run stream, on top of `history` if there is one."""
    history = history or RunHistory()
    for commit in commits:
        for event in run_events(commit):
            apply(history, event)
            history.events += envelopes_of(event)
            history.aggregates.observe(event)
        history.last = commit
        if commit.tally is not None and commit.tally.aggregates is not None:
            history.stated = commit
    return history


def apply(history: RunHistory, event: RunEvent) -> None:
    """Fold one event of a run stream."""
    history.takeovers_without_progress = count_takeovers_without_progress(history.takeovers_without_progress, event)
    match event.name:
        case "StepStarted":
            history.as_of = event.data["as_of"] if history.as_of is None else history.as_of
            history.takeovers += 1 if event.data.get("takeover") else 0
            history.worker = event.data["worker"]
        case "StepResumed":
            history.worker = event.data["worker"]
            deliver(history, event.data["mail"])
        case "LoopCollected":
            history.collections[tuple(event.data.get("path", ()))] = event.data
        case "LoopFrameClaimed":
            history.frames.append(event.data)
        case "LoopIterationStarted":
            history.begun.add(tuple(event.data["path"]))
        case "TaskProcessed":
            path = tuple(event.data.get("path", ()))
            history.outside.pop((event.data["run"], event.data["attempt"]), None)
            history.masked = history.masked or bool(event.data.get("masked"))
            history.tasks.setdefault(path, []).append(_without_masks(event) if event.data.get("masked") else event)
        case "LoopIterationCompleted":
            done, path = event.data, tuple(event.data["path"])
            history.masked = history.masked or bool(done.get("masked"))
            if done.get("masked") and "set_ctx" in done:
                done = {**done, "set_ctx": _lost(done["set_ctx"])}
            history.finished.setdefault(path[:-1], {})[path[-1]] = done
            history.finished.pop(path, None)
            history.collections.pop(path, None)
            history.tasks.pop(path, None)
            history.begun.discard(path)
        case "StepSuspended":
            history.waits.update({w["wait_id"]: w for w in event.data["waits"]})
            history.outside.update({(o["run"], o["attempt"]): w for w in event.data["waits"] if (o := w.get("outside"))})
            history.sealed = event.data.get("sealed")
            history.sealed_at = {path: len(events) for path, events in history.tasks.items()}
        case _:
            pass  # TaskStarted, TaskRetried: only for readers


def _without_masks(event: TaskEvent) -> TaskEvent:
    """Return the event with masks replaced by lost secrets. Reading one is an error, unless a seal restores its value; a mask
    could be mistaken for the secret."""
    return Event(event.name, event.ts, _lost(event.data))


def _lost(value: Any) -> Any:
    if value == MASK or (is_reference(value) and f"/{MASKED_NAME}-" in value["key"]):
        return Secret(LOST)
    if isinstance(value, Mapping):
        return {k: _lost(v) for k, v in value.items()}
    return [_lost(v) for v in value] if isinstance(value, list) else value


def deliver(history: RunHistory, mail: Iterable[Mail]) -> None:
    """Record the mail of a resume command."""
    history.mail.update({m["wait_id"]: m for m in mail})
