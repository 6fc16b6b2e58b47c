"""Snapshots: the state of an execution as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl_core.engine.done_chunks import DoneChunk, DoneChunks, Origin
from noetl_core.engine.fold.control_stream import REDUCER
from noetl_core.engine.records import Snapshot
from noetl_core.engine.state import Child, EndedRun, EndedRuns, LimitUse, LoopState, Run, State, StepState, Token

_STORED_AS = {"carried_over": "prior", "tokens_carried_over": "priors", "deduplicated": "made"}
"""Attributes that have another key in snapshots."""
_READ_AS = {key: name for name, key in _STORED_AS.items()}


def snapshot(state: State) -> Snapshot:
    """Return the snapshot of a state at its position."""
    return Snapshot(state.execution_id, state.seq, REDUCER, _plain(state))


def _plain(value: Any) -> Any:
    """Like `dataclasses.asdict`, but ten times faster: it does not copy leaves, because folding never changes a leaf."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    names = getattr(value, "__slots__", None)
    return {_STORED_AS.get(name, name): _plain(getattr(value, name)) for name in names} if names else value


def _attributes(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {_READ_AS.get(key, key): value for key, value in stored.items()}


def restore(snap: Snapshot) -> State:
    """Return the state that a snapshot holds. The caller looks first whether `snap.reducer` is `READABLE`."""
    d = _attributes(snap.state)
    d["tokens"] = {k: Token(**v) for k, v in d["tokens"].items()}
    d["steps"] = {k: StepState(**v) for k, v in d["steps"].items()}
    d["children"] = {k: Child(**v) for k, v in d["children"].items()}
    for places in ("limits", "freed"):
        d[places] = {k: LimitUse(**v) for k, v in d[places].items()}
    d["runs"] = {k: _restore_run(v, d["execution_id"], d["epoch"]) for k, v in d["runs"].items()}
    d["ended"] = _restore_ended(d["ended"]) if "ended" in d else EndedRuns(since=snap.seq + 1)
    return State(**d)


def _restore_ended(stored: Mapping[str, Any]) -> EndedRuns:
    rows = {key: [_restore_row(row) for row in stored[key]] for key in ("slowest", "failed")}
    return EndedRuns(**{**stored, **rows})


def _restore_row(stored: Sequence[Any]) -> EndedRun:
    row = EndedRun(*stored)
    if row.loop is None:
        return row
    total, succeeded, failed = row.loop
    return row._replace(loop=(total, succeeded, failed))


def _restore_run(stored: Mapping[str, Any], execution_id: str, epoch: int) -> Run:
    d = {"began_at": stored["opened_at"], **_attributes(stored)}
    loop = d.get("loop")
    if loop is None:
        return Run(**d)
    done = loop["done"]
    if "origins" in done:
        return Run(**{**d, "loop": LoopState(**{**loop, "done": _restore_done(done)})})
    # an older version kept each finished chunk unchanged, and twice the parts that a redrive had kept
    chunks = DoneChunks(execution_id, loop["plan"]["chunks"], [Origin(d["id"], epoch)])
    chunks.take_over(done, loop["plan"].get("slices", d["id"]))
    if (prior := d.get("carried_over")) is not None and "loop" in prior:
        d["carried_over"] = {**prior, "loop": {**prior["loop"], "done": {}}}
    return Run(**{**d, "loop": LoopState(**{**loop, "done": chunks})})


def _restore_done(stored: Mapping[str, Any]) -> DoneChunks:
    rows = {block: {index: DoneChunk(*row) for index, row in some.items()} for block, some in stored["rows"].items()}
    return DoneChunks(**{**stored, "origins": [Origin(*origin) for origin in stored["origins"]], "rows": rows})
