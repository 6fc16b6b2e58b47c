"""Snapshots: the state of an execution as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.engine.fold import REDUCER
from noetl_core.engine.records import Snapshot
from noetl_core.engine.state import Child, ChunkState, LimitUse, LoopState, Run, State, StepState, Token

_STORED_AS = {"carried_over": "prior", "tokens_carried_over": "priors", "deduplicated": "made"}
"""Attributes that have another key in snapshots."""
_READ_AS = {key: name for name, key in _STORED_AS.items()}


def snapshot(state: State) -> Snapshot:
    """Return the snapshot of a state at its position."""
    return Snapshot(state.execution_id, state.seq, REDUCER, _plain(state))


def _plain(value: Any) -> Any:
    """As `dataclasses.asdict`, but ten times faster: it does not copy leaves, because folding never changes a leaf."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    names = getattr(value, "__slots__", None)
    return value if names is None else {_STORED_AS.get(name, name): _plain(getattr(value, name)) for name in names}


def _attributes(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {_READ_AS.get(key, key): value for key, value in stored.items()}


def restore(snap: Snapshot) -> State:
    """Return the state that a snapshot holds. The caller compares `snap.reducer` with `REDUCER` first."""
    d = _attributes(snap.state)
    d["tokens"] = {k: Token(**v) for k, v in d["tokens"].items()}
    d["steps"] = {k: StepState(**v) for k, v in d["steps"].items()}
    d["children"] = {k: Child(**v) for k, v in d["children"].items()}
    for places in ("limits", "freed"):
        d[places] = {k: LimitUse(**v) for k, v in d[places].items()}
    d["runs"] = {k: _restore_run(v) for k, v in d["runs"].items()}
    return State(**d)


def _restore_run(stored: Mapping[str, Any]) -> Run:
    d = _attributes(stored)
    loop = d.get("loop")
    if loop is None:
        return Run(**d)
    done = {k: ChunkState(**v) for k, v in loop["done"].items()}
    return Run(**{**d, "loop": LoopState(**{**loop, "done": done})})
