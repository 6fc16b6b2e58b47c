"""Lists in pages, such as the results of a loop."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index as whole_number
from typing import Any, Protocol

from noetl_core.values.outlines.part import Part


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Page:
    """Some items of the list: in memory, or a reference to `size` bytes."""

    count: int
    items: list[Any] | None = None
    reference: Mapping[str, Any] | None = None
    size: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Pages:
    """All pages of a list, in order."""

    pages: tuple[Page, ...]

    @cached_property
    def firsts(self) -> list[int]:
        """The positions of the first items of the pages, and of the end."""
        firsts = [0]
        for page in self.pages:
            firsts.append(firsts[-1] + page.count)
        return firsts

    @cached_property
    def size(self) -> int:
        """The total bytes of referenced pages."""
        return sum(page.size for page in self.pages)


class PageSource(Protocol):
    """Loads pages of one list for one evaluation."""

    def load(self, numbers: Sequence[int]) -> Sequence[list[Any] | Part]:
        """Return the items of referenced pages: lists with the lengths of the pages."""
        ...

    def whole(self) -> Any:
        """Load the list."""
        ...


class PagedPart(Part):
    """A list in pages, each of which is loaded on demand."""

    __slots__ = ("_pages", "_source")

    kind = list

    def __init__(self, pages: Pages, source: PageSource) -> None:
        self._pages, self._source = pages, source

    def __len__(self) -> int:
        return self._pages.firsts[-1]

    def __getitem__(self, key: Any) -> Any:
        at = whole_number(key)
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            raise IndexError(key)
        number = self._page_at(at)
        return self._loaded([number])[0][at - self._pages.firsts[number]]

    def _page_at(self, index: int) -> int:
        return bisect_right(self._pages.firsts, index) - 1

    def _loaded(self, numbers: Sequence[int]) -> list[list[Any] | Part]:
        known = {number: self._pages.pages[number].items for number in numbers}
        missing = [number for number in numbers if known[number] is None]
        found = dict(zip(missing, self._source.load(missing), strict=True)) if missing else {}
        return [found[number] if items is None else items for number, items in known.items()]

    def slice(self, part: slice) -> list[Any]:
        indexes = range(len(self))[part]
        numbers = sorted({self._page_at(at) for at in indexes})
        items: dict[int, Any] = {}
        for number, loaded in zip(numbers, self._loaded(numbers), strict=True):
            first, end = self._pages.firsts[number], self._pages.firsts[number + 1]
            begin, stop = max(first, min(indexes)), min(end, max(indexes) + 1)
            within = slice(begin - first, stop - first)
            found = loaded.slice(within) if isinstance(loaded, Part) else loaded[within]
            items.update(zip(range(begin, stop), found, strict=True))
        return [items[at] for at in indexes]

    def whole(self) -> Any:
        return self._source.whole()
