"""Rules of loops: how a collection is cut into chunks, and how the ctx writes of iterations are merged (resolutions 9 and
10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from noetl_core.events.shapes import LoopPlan
from noetl_core.values.frozen import frozen

MAX_CHUNKS = 1_000
"""The most chunks of one loop, so that the state of a loop stays small whatever the size of the collection."""
CHUNK_ITEMS = 100
"""The most items of a chunk while the duration of an iteration is unknown."""
MOST_ITEMS = 1_000
"""The most items of a chunk, however short they are: a takeover reads all of them again."""
CHUNK_S = 10.0
"""The intended duration of a chunk in seconds: much longer than starting it, much shorter than the longest invocation."""
SHORTEST_S = 0.0001
CHUNKS_PER_SLOT = 8
"""The least number of chunks for each slot of the window: with one each, a slow chunk would leave the others idle."""
PER_CHUNK = 10
"""The most concurrent iterations in one chunk: a worker is one small machine."""
MEASURED_S = 3.0
"""Seconds for which a loop with `exec: auto` is measured before it may be handed over. A cold worker needs a second or two to
start a process for Python, or connections, which says nothing about the iterations."""
LEFT_S = 20.0
"""A loop with `exec: auto` is handed over when more than this is left of it. Workers that start cold and three writes a chunk
cost seconds, which is little beside 20; and 20 is little beside the 15 minutes that an invocation lasts."""
BUSY_SHARE = 0.5
"""The share of its processor from which a worker holds its iterations up. Below it they wait for others, and with
`max_in_flight` in force over all workers, more workers make them no faster."""


@frozen
class SpreadRule:
    """A loop is handed over after `measured_s` seconds when more than `left_s` seconds of work are left and the worker uses the
    share `busy` of its processor; or when more is left than the invocation has time for."""

    measured_s: float = MEASURED_S
    left_s: float = LEFT_S
    busy: float = BUSY_SHARE


class CtxConflict(Exception):
    """Two iterations wrote different values to one key, and no reducer combines them. Who acts: the author."""


@frozen
class ChunkPlan:
    """The division of a distributed loop: `chunks` of `chunk_size` items; `window` of them run at the same time, each with
    `per_chunk` items at the same time.

    `window * per_chunk` never exceeds the loop's `max_in_flight`.
    """

    total: int
    chunk_size: int
    chunks: int
    window: int
    per_chunk: int

    def as_dict(self) -> LoopPlan:
        return {
            "total": self.total,
            "chunk_size": self.chunk_size,
            "chunks": self.chunks,
            "window": self.window,
            "per_chunk": self.per_chunk,
        }

    def after(self, first: int, seconds: float) -> LoopPlan:
        """Return the plan of a loop whose lead ran the `first` items, and hands over the others."""
        return {
            **self.as_dict(),
            "total": first + self.total,
            "chunks": self.chunks + 1,
            "first": first,
            "seconds": round(seconds, 4),
        }


def chunk_range(plan: LoopPlan, chunk: int) -> range:
    """Return the indexes of the items of a chunk. A first chunk that the lead ran has a size of its own."""
    first, size = plan.get("first"), plan["chunk_size"]
    if first is None:
        start = chunk * size
    elif chunk == 0:
        return range(first)
    else:
        start = first + (chunk - 1) * size
    return range(start, min(start + size, plan["total"]))


def slice_key(execution_id: str, step_run: str, chunk: int, plan: LoopPlan) -> str:
    """Return the key under which the slice of a chunk is stored. Two workers may store different slices of one loop, and an
    overtaken one may continue. So the key of a plan contains its claim, and the place where a loop was handed over."""
    claim = f"{plan['claim']}/" if "claim" in plan else ""
    cut = f"{plan['first']}-{plan['chunk_size']}-" if "first" in plan else ""
    return f"{execution_id}/loops/{step_run}/{claim}{cut}{chunk}.json"


def chunk_of(plan: LoopPlan, item: int) -> int:
    """Return the chunk that has an item."""
    first = plan.get("first")
    if first is None:
        return item // plan["chunk_size"]
    return 0 if item < first else 1 + (item - first) // plan["chunk_size"]


def chunk_plan(
    total: int,
    max_in_flight: int,
    chunk_size: int | None = None,
    *,
    waits: bool = False,
    busy: bool = False,
    seconds: float | None = None,
) -> ChunkPlan:
    """Cut `total` items for `max_in_flight` concurrent iterations. With `waits` the body waits, so that a chunk is one item.
    With `busy` its iterations compete for the processor, so that a chunk runs one at a time and as many workers as may share
    them. `seconds` is the measured duration of an iteration, if any was measured.

    Every slot of the window gets several chunks, so that the window stays full until the end of the collection.
    """
    limit = max(1, max_in_flight)
    per_chunk = 1 if waits or busy else _divisor(limit)
    if chunk_size is None:
        even = -(-total // (max(1, limit // per_chunk) * CHUNKS_PER_SLOT))
        most = CHUNK_ITEMS if seconds is None else min(MOST_ITEMS, int(CHUNK_S * per_chunk / max(seconds, SHORTEST_S)))
        chunk_size = 1 if waits else max(2 * per_chunk if per_chunk > 1 else 1, min(most, even))
        chunk_size = max(chunk_size, -(-total // MAX_CHUNKS))
    chunk_size = max(1, chunk_size)
    per_chunk = min(per_chunk, chunk_size)
    chunks = -(-total // chunk_size)
    return ChunkPlan(total, chunk_size, chunks, max(1, min(limit // per_chunk, chunks)), per_chunk)


def _divisor(limit: int) -> int:
    """Return the largest share of `limit` for one chunk that leaves no part of the limit unused; 1 for a prime."""
    return next((n for n in range(min(limit - 1, PER_CHUNK), 1, -1) if limit % n == 0), 1)


def outermost_scope(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return `iter` outside of all loops: a child has the iteration that called it as `parent`."""
    handed = workload.get("iter")
    return {"parent": handed} if isinstance(handed, Mapping) else {}


def iteration_scope(iterator: str, item: Any, index: int, around: dict[str, Any]) -> dict[str, Any]:
    """Return `iter` of an iteration: its element, its index, and the iteration around it (formal specification 7.1,
    canonical step spec 6.4)."""
    return {**({"parent": around} if around else {}), iterator: item, "index": index}


def tolerated(count: float, percent: float, total: int) -> int:
    """Return how many failed iterations a `fail_fast` loop of `total` tolerates: the larger of the two allowances."""
    return max(int(count), int(total * percent / 100), 0)


Reducer = Callable[[Any, Any], Any]


def _append(held: Any, new: Any) -> Any:
    return [*_list(held), new]


def _extend(held: Any, new: Any) -> Any:
    return [*_list(held), *(new if isinstance(new, list) else [new])]


def _list(held: Any) -> list[Any]:
    if held is None or isinstance(held, list):
        return held or []
    raise TypeError(f"the key holds {_described(held)}, not a list")


def _described(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}"


def _sum(held: Any, new: Any) -> Any:
    return new if held is None else held + new


def _min(held: Any, new: Any) -> Any:
    return new if held is None else min(held, new)


def _max(held: Any, new: Any) -> Any:
    return new if held is None else max(held, new)


def _merge(held: Any, new: Any) -> Any:
    for value in (held or {}, new):
        if not isinstance(value, Mapping):
            raise TypeError(f"the reducer needs mappings, not {_described(value)}")
    return {**(held or {}), **new}


def _count(held: Any, new: Any) -> Any:
    return (held or 0) + 1


REDUCERS: Mapping[str, Reducer] = {
    "last": lambda held, new: new,
    "append": _append,
    "extend": _extend,
    "sum": _sum,
    "min": _min,
    "max": _max,
    "merge": _merge,
    "count": _count,
}


UNREAD: Final = frozenset({"last", "append", "count"})
"""Reducers that do not read the content of their values."""

Load = Callable[[Any, bool], Any]
"""`load(value, deep)` returns the value, or the value of a reference; with `deep`, references inside it are replaced too."""


def as_it_is(value: Any, deep: bool) -> Any:
    """The `Load` function for values without references."""
    return value


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON text: 1, 1.0 and true are three different values."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def merge_ctx(
    writes: Sequence[tuple[Any, Mapping[str, Any]]],
    reducers: Mapping[str, str],
    base: Mapping[str, Any],
    load: Load = as_it_is,
) -> dict[str, Any]:
    """Return the ctx after a parallel loop: the writes of the iterations in index order over `base`.

    A key with a reducer is combined, beginning with the value in ctx. Any other key takes one value: equal writes count as
    one, different ones raise `CtxConflict`. Values that are combined or compared are loaded first, so that the size of a
    value has no effect.
    """
    out: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for index, patch in writes:
        for key, value in sorted(patch.items()):
            reducer = reducers.get(key)
            if reducer is not None:
                held = out[key] if key in out else load(base.get(key), False)
                try:
                    out[key] = REDUCERS[reducer](held, value if reducer in UNREAD else load(value, reducer in ("min", "max")))
                except (TypeError, ValueError) as error:
                    raise CtxConflict(
                        f"reducer {reducer} of ctx.{key} cannot take the value of iteration {index}: {error}"
                    ) from None
            elif key in out and not _equal(out[key], value, load):
                raise CtxConflict(
                    f"iterations {first[key]} and {index} wrote different values to ctx.{key};"
                    f" name a reducer in loop.spec.policy.reducers, or write iter.{key}"
                )
            else:
                out[key] = value
                first.setdefault(key, index)
    return out


def _equal(one: Any, other: Any, load: Load) -> bool:
    return same(load(one, True), load(other, True))


def condense(
    writes: Sequence[tuple[Any, Mapping[str, Any]]], reducers: Mapping[str, str], load: Load = as_it_is
) -> list[tuple[Any, Mapping[str, Any]]]:
    """Return fewer writes that `merge_ctx` merges to the same result, to save memory in loops of many iterations.

    Equal writes of a key become one; so do writes with the reducer `last`, and whole numbers with `sum`, `min` and `max`.
    Writes whose result depends on order or rounding are kept.
    """
    kept: dict[str, list[tuple[Any, Any]]] = {}
    for index, patch in writes:
        for key, value in patch.items():
            mine = kept.setdefault(key, [])
            reducer = reducers.get(key)
            if not mine:
                mine.append((index, value))
            elif reducer == "last":
                mine[-1] = (index, value)
            elif reducer is not None:
                first, held = mine[-1]
                if reducer in ("sum", "min", "max") and type(held) is int and type(value) is int:
                    mine[-1] = (first, REDUCERS[reducer](held, value))
                else:
                    mine.append((index, value))
            elif _equal(mine[0][1], value, load):
                mine[0] = (mine[0][0], value)
            elif len(mine) == 1:
                mine.append((index, value))  # the conflict
    out: dict[Any, dict[str, Any]] = {}
    for key, values in kept.items():
        for index, value in values:
            out.setdefault(index, {})[key] = value
    return sorted(out.items(), key=lambda w: w[0])
