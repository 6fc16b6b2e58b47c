"""The state of its execution that a run sees, fixed by its command, and the values of its pointers and references."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any

from cachetools import LRUCache

from noetl_core.dsl.model import Playbook
from noetl_core.engine.dispatch.commands import context_of
from noetl_core.engine.records import Command
from noetl_core.engine.routing.passes import result_at
from noetl_core.engine.state import trigger_seen
from noetl_core.events.shapes import CommandContext
from noetl_core.expr import Pointer, TemplateError, is_reference
from noetl_core.expr.references import Path
from noetl_core.log.history import load_state
from noetl_core.log.load_budgets import LoadBudget, LoadLimitExceeded
from noetl_core.log.stored_values import Values, claimed
from noetl_core.ports import EventStore, NotFound, ResultStore
from noetl_core.values.frozen import frozen
from noetl_core.values.large_json import JsonText
from noetl_core.values.outlines import Part
from noetl_core.values.result_refs import is_partly_readable
from noetl_core.worker.values.large_values import LargeValues, template_errors, too_large

KEPT_VIEWS = 4
"""Cached views of distributed loops: a worker process runs the chunks of several loops in turn."""
KEPT_VALUES = 8
"""Cached values of references per run. Pages of results are read once, so few are enough."""


@frozen
class RunView:
    """Workload, ctx, args and finished steps as of the run's command (resolution 27)."""

    execution_id: str
    workload: Mapping[str, Any]
    ctx: dict[str, Any]
    args: Mapping[str, Any]
    steps: Mapping[str, Any]
    trigger: Mapping[str, Any]
    context: CommandContext
    """The same in the form that commands carry: plain data with stored pointers."""
    strict: bool = False


class Views:
    """Builds the views of runs. The chunk runs of a distributed loop share one view: the lead run stores it, and it is cached
    for the next chunk."""

    def __init__(self, store: EventStore, results: ResultStore, playbooks: Callable[[str], Playbook]) -> None:
        self._store, self._results, self._playbooks = store, results, playbooks
        self._kept: LRUCache[str, CommandContext] = LRUCache(KEPT_VIEWS)
        self._lock = Lock()

    def __call__(self, command: Command, as_of: int) -> RunView:
        """Return the view at control position `as_of`: from the command or the loop's stored view if they are of that
        position, otherwise from the log, once for the chunks of a loop."""
        if command.as_of == as_of:
            if command.context is not None:
                return _view(command.execution_id, command.context)
            if command.loop is not None and "view" in command.loop:
                stored = command.loop["view"]
                return _view(command.execution_id, self._shared(stored, lambda: json.loads(self._results.get(stored))))
        if command.loop is None:
            return _view(command.execution_id, self._of_log(command, as_of))
        shared = f"{view_key(command.execution_id, command.loop['run'])}@{as_of}"
        return _view(command.execution_id, self._shared(shared, lambda: self._of_log(command, as_of)))

    def _shared(self, key: str, load: Callable[[], CommandContext]) -> CommandContext:
        """Return the view of a loop's chunks, cached or else loaded."""
        with self._lock:
            known = self._kept.get(key)
        if known is not None:
            return known
        context = load()
        with self._lock:
            self._kept[key] = context
        return context

    def _of_log(self, command: Command, as_of: int) -> CommandContext:
        playbook = self._playbooks(command.digest)
        state = load_state(self._store, command.execution_id, upto=as_of)
        run = state.runs[command.loop["run"] if command.loop is not None else command.run_id]
        return context_of(playbook, state, run)


def _view(execution_id: str, c: CommandContext) -> RunView:
    steps = {n: {"status": s["status"], "result": result_at(s["at"]), "loop": s["loop"]} for n, s in c["steps"].items()}
    return RunView(
        execution_id, c["workload"], dict(c["ctx"]), c["args"], steps, trigger_seen(c.get("trigger")), c, bool(c.get("strict"))
    )


def view_key(execution_id: str, step_run: str) -> str:
    """Return the key under which the view of a distributed loop's chunks is stored."""
    return f"{execution_id}/loops/{step_run}/view.json"


TEMPLATE_BYTES = 64 * 1024 * 1024
"""The most bytes that a template loads of one reference, unless `max_input_bytes` is more. Decoded JSON takes up to ten times its
size in memory."""


class Resolver:
    """`resolve` of a run's scopes: loads pointers and references and caches the last few values. A template that needs more than
    `limit` bytes of one reference fails with an error for the author."""

    def __init__(self, store: EventStore, results: ResultStore, execution_id: str, limit: int = TEMPLATE_BYTES) -> None:
        self._limit = limit
        self._values = Values(store, results, execution_id, limit=None)
        self.family = self._values.family
        self._kept: LRUCache[object, tuple[Any, bool]] = LRUCache(KEPT_VALUES)
        self._results = results
        self._large: LargeValues | None = None
        self._lock = Lock()

    def open(self, ref: Mapping[str, Any]) -> Part | None:
        """Return a large value of which only the parts that a template reads are loaded; None if it is cached or must be loaded
        whole."""
        if not is_partly_readable(ref) or self._cached(cache_key(ref)) is not None or not self.family.owns(ref):
            return None
        with self._lock:
            if self._large is None:  # created late: it makes a reference cycle, which only the garbage collector frees
                self._large = LargeValues(self._results, self._values, self._limit, self)
        return self._large.open(ref)

    def __call__(self, ref: Any) -> Any:
        """Return the value of a pointer or a reference. The value may contain references. Data that only looks like a
        reference is returned as it is."""
        key = (ref.at["run"], ref.at["seq"]) if isinstance(ref, Pointer) else ref["key"]
        with template_errors(key):
            if not isinstance(ref, Pointer):
                return self._opened(ref)[0] if self.family.owns(ref) else ref
            kept = self._cached(key)
            if kept is None:
                kept = self.remember(key, self._values.at(ref.at))
            return kept[0]

    def whole(self, value: Any, budget: LoadBudget | None = None, *, texts: bool = False) -> Any:
        """Return `value` with all references in it replaced by their values, at any depth; with `texts`, large values may stay
        `JsonText`. Raises `LoadLimitExceeded`, `NotFound`, `ValueError`."""
        return self._values.whole(value, budget, self._opened_as_text if texts else self._opened)

    def whole_uncached(self, value: Any, budget: LoadBudget, place: Path, *, texts: bool = False) -> Any:
        """Like `whole`, without the cache, for other threads. `place` is the path of the value, for errors."""
        return self._values.whole(value, budget, partial(self._values.opened, texts=texts), place)

    def behind(self, value: Any, deep: bool) -> Any:
        """Return the value of a reference; with `deep`, also the values of references inside it. Raises `TemplateError`."""
        if not deep:
            return self(value) if is_reference(value) else value
        try:
            return self.whole(value)
        except (NotFound, ValueError) as error:
            raise TemplateError(str(error)) from None

    def remember(self, key: object, value: Any, nested: bool = True) -> tuple[Any, bool]:
        """Cache a value that was just loaded or stored; `nested`: it may contain references."""
        with self._lock:
            self._kept[key] = value, nested
        return value, nested

    def _cached(self, key: object) -> tuple[Any, bool] | None:
        with self._lock:
            return self._kept.get(key)

    def opened(self, ref: Mapping[str, Any], budget: LoadBudget | None = None) -> Any:
        """Return the value of a reference of the family; it may contain references. Raises as `whole`."""
        return self._opened(ref, budget)[0]

    def _opened(self, ref: Mapping[str, Any], budget: LoadBudget | None = None) -> tuple[Any, bool]:
        value, nested = self._cached(cache_key(ref)) or self.remember(cache_key(ref), *self._loaded(ref, budget))
        return (value.value if type(value) is JsonText else value), nested

    def _opened_as_text(self, ref: Mapping[str, Any], budget: LoadBudget | None) -> tuple[Any, bool]:
        """Return the same as `_opened`, but a value without references that is cached or loaded as `JsonText` unchanged."""
        kept = self._cached(cache_key(ref)) or self.remember(cache_key(ref), *self._values.opened(ref, budget, texts=True))
        return self._opened(ref, budget) if kept[1] else kept

    def _loaded(self, ref: Mapping[str, Any], budget: LoadBudget | None) -> tuple[Any, bool]:
        if budget is not None:
            return self._values.opened(ref, budget)
        own = LoadBudget(self._limit)
        try:
            own.take(claimed(ref))
            return self._values.opened(ref, own)
        except LoadLimitExceeded as full:
            raise too_large(ref["key"], full.size, full.limit) from None


def cache_key(ref: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the cache key of a value: a task may write one object twice."""
    return ref["key"], ref.get("checksum")
