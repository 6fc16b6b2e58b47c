"""`kind: transfer`: reads the inputs, and copies the chunks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from noetl_core.dsl.fields.kinds.data import SOURCES, TARGETS
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import BadInput, Tool, ToolCall
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.postgres.connections import Connections, target_of
from noetl_core.tools.postgres.copy import Load, columns_of, mode_of
from noetl_core.tools.registry import BUILT_IN, UnknownKind, make
from noetl_core.tools.rows.scratch import DiskFull, scratch
from noetl_core.tools.transfer.staged import Staged, chunks, stage
from noetl_core.tools.transfer.target import Overtaken, Progress, Target

CHUNK_ROWS: Final = 10_000
MOST_ROWS: Final = 1_000_000


class TransferTool:
    """Inputs `source`, `target`, `mode`, `keys`, `columns`; spec `chunk_rows`."""

    kind = "transfer"
    inline = False

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        """`policy` None: as the environment says, read at the first call."""
        self._policy = policy
        self._connections = Connections(policy)
        self._tools: dict[str, Tool] = {}
        self._making = threading.Lock()

    def run(self, call: ToolCall) -> Outcome:
        chunk_rows = _chunk_rows(call)
        source, kind = _part(call, "source", SOURCES, self._gives_rows)
        target, target_kind = _part(call, "target", TARGETS)
        unknown = set(target) - TARGETS[target_kind] - {"kind"}
        if unknown:
            known = ", ".join(sorted(TARGETS[target_kind]))
            raise BadInput(f"`target` of kind {target_kind} does not take {', '.join(sorted(unknown))}: it takes {known}")
        load = _load(call, target, target_kind)
        try:
            with scratch("noetl-transfer-") as folder:
                staged = stage(call, source, kind, self._tool)
                into = self._target(call, target, target_kind, load, staged, folder)
                try:
                    return _move(call, staged, into, chunk_rows)
                finally:
                    into.close()
        except UnknownKind as error:
            return Outcome.failed("unsupported", f"transfer: source: {error}", retryable=False)
        except DiskFull as error:
            return Outcome.failed("limit", f"transfer: {error}", retryable=False, code="disk_full")

    def close(self) -> None:
        """Close kept connections."""
        self._connections.close()
        for tool in self._tools.values():
            close: Callable[[], None] | None = getattr(tool, "close", None)
            if close is not None:
                close()

    def _tool(self, kind: str) -> Tool:
        """Return the tool that reads a source. Raises `UnknownKind`."""
        with self._making:
            if kind not in self._tools:
                if kind in SOURCES and kind in BUILT_IN:
                    module, _, name = BUILT_IN[kind].partition(":")
                    self._tools[kind] = getattr(import_module(module), name)(self._policy)
                else:
                    self._tools[kind] = make(kind)
            return self._tools[kind]

    def _gives_rows(self, kind: str) -> bool:
        """Return whether a plugin that is installed has this kind of source."""
        if kind in BUILT_IN:
            return False
        try:
            return hasattr(self._tool(kind), "export")
        except UnknownKind:
            return False

    def _target(self, call: ToolCall, target: Mapping[str, Any], kind: str, load: Load, staged: Staged, folder: Path) -> Target:
        if kind == "postgres":
            from noetl_core.tools.transfer.postgres_target import PostgresTarget  # 10 ms: one target is enough

            where = target_of(call, target.get("auth", target.get("connection")), target.get("database"))
            return PostgresTarget(self._connections, where, load, call, staged.identity)
        if kind == "duckdb":
            from noetl_core.tools.duckdb.tool import database_file  # 130 ms: where it is the target
            from noetl_core.tools.transfer.duckdb_target import DuckDBTarget  # with it

            return DuckDBTarget(database_file(call, target.get("database")), load, call, staged, folder)
        from noetl_core.tools.transfer.s3_target import FORMATS, S3Target  # 100 ms: where it is the target

        form = target.get("format", "jsonl")
        if form not in FORMATS:
            raise BadInput(f"`target.format` {str(form)[:20]!r} is unknown: {', '.join(FORMATS)}")
        if call.results is None:
            raise BadInput("this worker has no result store")
        return S3Target(str(target.get("uri")), form, load, call, staged, call.results)


def _move(call: ToolCall, staged: Staged, target: Target, chunk_rows: int) -> Outcome:
    """Move the remaining chunks, or as many as the invocation has time for."""
    until = None if call.resume_after_s is None else time.monotonic() + call.resume_after_s
    while True:
        progress = target.progress()
        if progress.source != staged.identity:
            message = "transfer: the source is not the same as when a part of it was written to the target"
            return Outcome.failed("storage", message, retryable=False)
        if progress.done:
            return Outcome.ok(_result(target, progress))
        try:
            for chunk in chunks(staged.rows(call, progress.rows_read), chunk_rows):
                if call.cancelled.is_set():
                    return Outcome.failed("cancelled", "transfer: cancelled", retryable=False)
                progress = target.write(chunk, progress)
                call.log(f"{progress.rows_read} rows in {progress.chunks} chunks")
                if until is not None and time.monotonic() >= until:
                    return Outcome.unfinished()
            return Outcome.ok(_result(target, target.finish(progress)))
        except Overtaken:
            continue  # another worker carried on with it: go on where it is now


def _result(target: Target, progress: Progress) -> dict[str, Any]:
    counts = {"rows_read": progress.rows_read, "rows_written": progress.rows_written, "chunks": progress.chunks}
    return {**counts, **target.facts(progress)}


def _part(
    call: ToolCall, name: str, kinds: Collection[str], installed: Callable[[str], bool] = lambda _: False
) -> tuple[Mapping[str, Any], str]:
    """Return source or target with its kind. `installed`: whether a plugin has a kind beside `kinds`."""
    part = call.inputs.get(name)
    if not isinstance(part, Mapping):
        raise BadInput(f"`{name}` must be a mapping: kind, and the inputs of that kind")
    kind = str(part.get("kind", "rows" if "rows" in part and name == "source" else ""))
    if kind not in kinds and not installed(kind):
        raise BadInput(f"`{name}.kind` {kind[:20]!r} is unknown: {suggest(kind, kinds) or ', '.join(kinds)}")
    return part, kind


def _load(call: ToolCall, target: Mapping[str, Any], kind: str) -> Load:
    mode, keys = mode_of(call.inputs)
    table = target.get("table", "")
    if kind != "s3" and (not isinstance(table, str) or not table.strip()):
        raise BadInput("`target.table` must name a table")
    return Load(str(table), columns_of(call.inputs.get("columns"), "columns"), mode, keys)


def _chunk_rows(call: ToolCall) -> int:
    rows = call.spec.get("chunk_rows", CHUNK_ROWS)
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
        raise BadInput(f"`spec.chunk_rows` must be a whole number from 1 to {MOST_ROWS}")
    return rows
