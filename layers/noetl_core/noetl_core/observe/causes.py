"""Finds the errors that led to a failure, the root first, each with its place in the playbook and the output of its task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.dsl.model import Playbook, Step, Task
from noetl_core.dsl.reading.positions import Positions
from noetl_core.engine.records import Commit, run_events
from noetl_core.events.shapes import Failure
from noetl_core.expr import is_reference
from noetl_core.observe.account import Account, Moment, RunAccount
from noetl_core.python_code import FILENAME
from noetl_core.values.frozen import frozen

if TYPE_CHECKING:
    from noetl_core.api.shapes.why import Cause, CodeLine

_FRAME: Final = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<name>[^\n]*)(?:\n    (?P<source>[^\n]*))?')
KEPT: Final = ("kind", "message", "step", "task", "iteration", "code")
NEVER_ENDED: Final = ("lost", "timeout", "cancelled")
"""Errors of runs that the control plane ended: the log has the task that was running then."""


@frozen
class Failed:
    """A failure to be explained: its error, and the run that has it, if there is one. `by_arcs`: the arcs of the run failed."""

    error: Failure
    run: RunAccount | None = None
    by_arcs: bool = False


def failures(account: Account, failure: Failure | None) -> list[Failed]:
    """Return the failures that ended an execution, the root first."""
    if (decided := account.failed()) is not None:
        return _decided(account, *decided)
    if failure is None or failure.get("kind") == "cancelled":
        return []
    unhandled = [r for r in account.runs.values() if r.unhandled and r.error is not None]
    run = next((r for r in unhandled if r.step == failure.get("step") and _same(r.error, failure)), None)
    return [Failed(failure, run)]


def failures_of(run: RunAccount) -> list[Failed]:
    """Return the failures of one run."""
    found = [Failed({**run.error, "step": run.step}, run)] if run.error is not None else []
    return (
        [*found, Failed({"kind": "template", "message": run.arcs_error, "step": run.step}, run, True)]
        if run.arcs_error
        else found
    )


def _decided(account: Account, at: Moment, error: Failure) -> list[Failed]:
    """Return a failure caused by a decision of the control plane, preceded by the error of the run it was about."""
    about = [r for r in account.runs.values() if r.next is not None and (r.next.seq, r.next.place + 1) == (at.seq, at.place)]
    if about and about[0].arcs_error:
        run = about[0]
        root = [Failed({**run.error, "step": run.step}, run)] if run.error is not None else []
        return [*root, Failed(error, run, True)]
    return [Failed(error)]


def _same(one: Failure | None, other: Failure) -> bool:
    return one is not None and one.get("kind") == other.get("kind") and one.get("message") == other.get("message")


def cause(failed: Failed, playbook: Playbook, text: Positions, stream: Sequence[Commit], prefix: str) -> Cause:
    """Return a failure with its place; `stream` is the end of the run's stream, newest last, as far as it is read.

    Ids of its events begin with `prefix`.
    """
    error = failed.error
    out: Any = {key: error[key] for key in KEPT if error.get(key) is not None}
    if error.get("details") is not None and not is_reference(error["details"]):
        out["details"] = error["details"]
    if failed.run is not None:
        out["step_run_id"] = failed.run.id
        out.setdefault("step", failed.run.step)
    step = playbook.by_name.get(str(out.get("step")))
    if failed.by_arcs:
        if step is not None:
            _put(out, text, step.path, "next", "arcs")
        return cast("Cause", out)
    found = _attempt(stream, error)
    if found is not None:
        commit, place, data = found
        outcome = data["outcome"]
        out["task"], out["event_id"] = data["task"], f"{prefix}.{commit.seq}.{place}"
        out["attempts"] = data["attempt"]
        log = outcome["meta"].get("log")
        out.update({key: log[key] for key in ("stdout", "stderr") if isinstance(log, Mapping) and log.get(key)})
    elif error.get("kind") in NEVER_ENDED and "task" not in out and (left := _at_work(stream)) is not None:
        out["task"] = left
    task = next((t for t in _tasks(step) if t.name == out.get("task")), None)
    if task is not None:
        _put(out, text, task.path)
        if "line" not in out and task.line:
            out["line"] = task.line
        if found is not None:
            _traceback(out, found[2]["outcome"], task, text)
    if "line" not in out and step is not None:
        _put(out, text, step.path, "step")
    elif "line" not in out:
        _put(out, text, (), "executor", "spec", "policy", "lifecycle", "timeout_s")
    return cast("Cause", out)


def _tasks(step: Step | None) -> Iterator[Task]:
    if step is not None:
        yield from step.tasks
        yield from step.compensate


def _attempt(stream: Sequence[Commit], error: Failure) -> tuple[Commit, int, Any] | None:
    """Return the newest attempt of the error's task and iteration that failed with the error."""
    for commit in reversed(stream):
        events = run_events(commit)
        for place in range(len(events) - 1, -1, -1):
            event = events[place]
            if event.name != "TaskProcessed" or event.data["outcome"]["status"] != "error":
                continue
            if event.data["task"] == error.get("task") and event.data.get("path") == error.get("iteration"):
                return commit, place, event.data
    return None


def _at_work(stream: Iterable[Commit]) -> str | None:
    """Return the task that began last and never ended, according to the log: short tasks leave no start."""
    task = None
    for commit in stream:
        for event in run_events(commit):
            if event.name == "TaskStarted":
                task = event.data["task"]
            elif event.name == "TaskProcessed":
                task = None
    return task


def _traceback(out: Any, outcome: Mapping[str, Any], task: Task, text: Positions) -> None:
    """Add the traceback of a python task, and set the place of the error to the last line of the author's code in it."""
    traceback = outcome.get("py", {}).get("traceback") if isinstance(outcome.get("py"), Mapping) else None
    if not isinstance(traceback, str):
        return
    lines: list[CodeLine] = []
    for frame in _FRAME.finditer(traceback):
        number = int(frame["line"])
        line: CodeLine = {"name": frame["name"], "source": (frame["source"] or "").strip()}
        where = text.in_code((*task.path, "code"), number) if frame["file"] == FILENAME else None
        if where is not None:
            line["line"], line["column"] = where
            out["line"], out["column"] = where
        else:
            line["file"] = f"{frame['file']}:{number}"
        lines.append(line)
    if lines:
        out["traceback"] = lines


def _put(out: Any, text: Positions, path: Any, *below: str) -> None:
    where = text.of(path, *below)
    if where is not None:
        out["line"], out["column"] = where
