"""Write units by partition key, counted as DynamoDB counts them: an item, and what each of its indexes has to change.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html (write capacity units): an index takes one write
where an item enters it, leaves it or changes in place, and two where the item's key in it changes. A local index lies in the
partition of its table's key, a global one in a partition of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

Item = Mapping[str, Mapping[str, Any]]
Key = tuple[str, str]
"""The table or the global index, and the value of its partition key."""


def size_of(item: Item) -> int:
    """Bytes of an item: names and values of its attributes; numbers as DynamoDB packs them."""
    total = 0
    for name, typed in item.items():
        ((kind, value),) = typed.items()
        total += len(name.encode())
        total += (len(value) + 1) // 2 + 1 if kind == "N" else len(value if isinstance(value, bytes) else str(value).encode())
    return total


def units_of(item: Item) -> int:
    """Write units of an item: one per KB begun."""
    return max(1, ceil(size_of(item) / 1024))


class WrittenUnits:
    """Counts the write units of puts and deletes in one table, from its definition."""

    def __init__(self, name: str, definition: Mapping[str, Any]) -> None:
        self._name = name
        self._local = [_keys(index) for index in definition.get("LocalSecondaryIndexes", ())]
        self._global = {str(index["IndexName"]): _keys(index) for index in definition.get("GlobalSecondaryIndexes", ())}
        self._items: dict[Key, Item] = {}
        self.units: Counter[Key] = Counter()

    def put(self, item: Item) -> None:
        """An item that was written."""
        self._replace(item["pk"]["S"], item["sk"]["S"], item)

    def delete(self, pk: str, sk: str) -> None:
        """An item that was deleted."""
        self._replace(pk, sk, None)

    def refuse(self, pk: str) -> None:
        """A write whose condition did not hold: it takes a unit as well."""
        self.units[(self._name, pk)] += 1

    def _replace(self, pk: str, sk: str, new: Item | None) -> None:
        old = self._items.pop((pk, sk), None)
        if new is not None:
            self._items[(pk, sk)] = new
        here = (self._name, pk)
        self.units[here] += max(units_of(item) for item in (old or {}, new or {}))
        for keys in self._local:
            for _, units in _moved(keys, old, new):
                self.units[here] += units
        for index, keys in self._global.items():
            for place, units in _moved(keys, old, new):
                self.units[(index, place)] += units


def _keys(index: Mapping[str, Any]) -> tuple[str, str]:
    first, second = (str(key["AttributeName"]) for key in index["KeySchema"])
    return first, second


def _moved(keys: tuple[str, str], old: Item | None, new: Item | None) -> Iterator[tuple[str, int]]:
    """The writes in an index, as (partition key, units)."""
    before, after = (_place(keys, item) for item in (old, new))
    if before == after:
        if before is not None and old is not None and new is not None and old != new:
            yield before[0], max(units_of(old), units_of(new))
        return
    if before is not None and old is not None:
        yield before[0], units_of(old)
    if after is not None and new is not None:
        yield after[0], units_of(new)


def _place(keys: tuple[str, str], item: Item | None) -> tuple[str, str] | None:
    if item is None or any(key not in item for key in keys):
        return None
    first, second = (str(next(iter(item[key].values()))) for key in keys)
    return first, second
