"""Secrets of a suspended run: they are encrypted (sealed) into its `StepSuspended` event, and the worker that resumes the run
decrypts them (docs/access.md).

The log shows only the mask of a secret. The secrets that a pass still needs (in results by name, `_prev`, `_outcome`, `iter`, its
writes to ctx) are stored beside, encrypted, and bound to the execution and the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from noetl_core.expr import Secret, contains_secret
from noetl_core.ports import Sealer
from noetl_core.values.frozen import frozen
from noetl_core.worker.run_tree import PipelinePass

MARK = "\0secret"
"""The only key of a mapping that represents a secret in the encrypted text. Other data never has this key."""
Path = tuple[int, ...]


@frozen
class Seals:
    """Encrypts and decrypts the secrets of one run."""

    sealer: Sealer
    execution_id: str
    run_id: str

    def seal(self, passes: Iterable[PipelinePass]) -> str | None:
        """Return the secrets that `passes` hold, encrypted; None when they hold none."""
        held = [[list(pass_.path), parts] for pass_ in passes if (parts := _secrets_of(pass_))]
        return self.sealer.seal(json.dumps(held).encode(), self._context) if held else None

    def open(self, sealed: str) -> dict[Path, Mapping[str, Any]]:
        """Return the secrets that each pass held, by its path. Raises `CorruptLog`, `Unavailable`."""
        held = json.loads(self.sealer.open(sealed, self._context))
        return {tuple(path): _from_json(parts) for path, parts in held}

    @property
    def _context(self) -> dict[str, str]:
        return {"execution_id": self.execution_id, "run_id": self.run_id}


def restore(pass_: PipelinePass, held: Mapping[str, Any]) -> None:
    """Restore the values that a pass held when it was suspended."""
    pipe = pass_.pipe
    pipe.results.update(held.get("results", {}))
    pipe.iter = {**pipe.iter, **held.get("iter", {})}
    pass_.ctx.write(held.get("ctx", {}))
    if "prev" in held:
        pipe.prev = held["prev"]
    if "last" in held:
        pipe.last = held["last"]


def _secrets_of(pass_: PipelinePass) -> dict[str, Any]:
    pipe = pass_.pipe
    parts: dict[str, Any] = {
        "results": _only(pipe.results),
        "iter": _only(pipe.iter),
        "ctx": _only(pass_.ctx.view),  # in a sequential loop this includes writes of earlier iterations
    }
    parts = {name: part for name, part in parts.items() if part}
    for name, value in (("prev", pipe.prev), ("last", pipe.last)):
        if contains_secret(value):
            parts[name] = _to_json(value)
    return parts


def _only(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that contain a secret, as JSON. Values that come from outer iterations are sealed with those
    iterations."""
    return {name: _to_json(value) for name, value in values.items() if name != "parent" and contains_secret(value)}


def _to_json(value: Any) -> Any:
    """Return a value as JSON data in which `_MARK` mappings represent secrets."""
    if isinstance(value, Secret):
        return {MARK: _to_json(value._value)}
    if isinstance(value, Mapping):
        return {k: _to_json(v) for k, v in value.items()}
    return [_to_json(v) for v in value] if isinstance(value, list | tuple) else value


def _from_json(value: Any) -> Any:
    """Return the value of JSON data that `_to_json` wrote."""
    if isinstance(value, dict):
        if MARK in value:
            return Secret(_from_json(value[MARK]))
        return {k: _from_json(v) for k, v in value.items()}
    return [_from_json(v) for v in value] if isinstance(value, list) else value
