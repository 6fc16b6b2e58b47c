"""Parts of large values that a decision reads: it asks for the outline of a value, then for the spans that its templates read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from noetl_core.engine.needs import AskedNeed, Need, TooMuch, Unreadable, without_reference
from noetl_core.expr import LimitExceeded, TemplateError
from noetl_core.expr.references import Path
from noetl_core.values.outlines import Container, OutlinedPart, Page, PagedPart, Pages, Part, Span, outlined

MAX_DECISION_BYTES: Final = 8 * 1024 * 1024
"""The most bytes that a guard or an argument may read behind one reference; more is an error of the author (`kind: limit`)."""
PAGED_BYTES: Final = 8 * MAX_DECISION_BYTES
"""The most bytes of a list kept in pages that a decision loads as a whole: together its pages are the results of a loop."""
FEW: Final = 4
"""Number of parts of one object after which all of the object is loaded, if it is within that limit: each question restarts the
decision."""


Ask = Callable[[Sequence[AskedNeed]], NoReturn]
"""Raises `NeedValues`."""


def outline_need(ref: Mapping[str, Any]) -> AskedNeed:
    return ("outline", ref["key"], str(ref.get("outline")), str(ref.get("checksum")), ref)


def prefetched(ref: Mapping[str, Any]) -> AskedNeed:
    """Return what to load of a reference before templates read it: the complete value, or the outline of one that is too
    large."""
    size = ref.get("size")
    if outlined(ref) and type(size) is int and size > MAX_DECISION_BYTES:
        return outline_need(ref)
    return ("object", ref["key"], ref)


def too_much(size: int) -> LimitExceeded:
    return LimitExceeded(
        f"a decision would read {size} bytes through one reference (the limit is {MAX_DECISION_BYTES}); read less of it (an"
        " item, a slice, its length), or compute what it needs in a task"
    )


class LargeValues:
    """The large values that one decision reads."""

    def __init__(self, values: Mapping[Need, Any], ask: Ask) -> None:
        self._values, self._ask = values, ask
        self._read: dict[str, set[Span | Page]] = {}

    def open(self, ref: Mapping[str, Any]) -> Part | None:
        """Return the value of a partly readable reference as a part with nothing loaded; None if it must be, or is, loaded
        completely."""
        if ("object", ref["key"]) in self._values:
            return None
        found: Container | Pages | None = self.found([outline_need(ref)])[0]
        if isinstance(found, Pages):
            return PagedPart(found, _PageSource(self, ref, found))
        return None if found is None else OutlinedPart(found, _Source(self, ref, found.size))

    def found(self, needs: Sequence[AskedNeed]) -> list[Any]:
        """Return the values of needs, or ask for those that are missing."""
        missing = [need for need in needs if without_reference(need) not in self._values]
        if missing:
            self._ask(missing)
        values = [self._values[without_reference(need)] for need in needs]
        for value in values:
            if isinstance(value, Unreadable):
                raise TemplateError(value.reason)
            if isinstance(value, TooMuch):
                raise too_much(value.size)
        return values

    def whole(self, ref: Mapping[str, Any]) -> NoReturn:
        """Request all of an object. The decision that then begins again finds it."""
        self._ask([("object", ref["key"], ref)])

    def few(self, key: str, parts: Iterable[Span | Page]) -> bool:
        """Return whether these parts and the parts of the object that were read before are few."""
        read = self._read.setdefault(key, set())
        read |= set(parts)
        return len(read) <= FEW


class _Source:
    """`PartSource` of one evaluation."""

    def __init__(self, values: LargeValues, ref: Mapping[str, Any], size: int) -> None:
        self._values, self._ref, self._size = values, ref, size
        self._read: set[Span] = set()

    def load(self, spans: Sequence[Span], path: Path) -> Sequence[Any]:
        if self._size > MAX_DECISION_BYTES:
            self._read |= set(spans)
            used = sum(span.size for span in self._read)
            if used > MAX_DECISION_BYTES:
                raise too_much(used)
        elif not self._values.few(self._ref["key"], spans):
            self._values.whole(self._ref)
        return self._values.found([("part", self._ref["key"], span) for span in spans])


class _PageSource:
    """`PageSource` of one evaluation."""

    def __init__(self, values: LargeValues, ref: Mapping[str, Any], pages: Pages) -> None:
        self._values, self._ref, self._pages = values, ref, pages
        self._read: set[Page] = set()

    def load(self, numbers: Sequence[int]) -> Sequence[list[Any] | Part]:
        pages = [self._pages.pages[number] for number in numbers]
        if self._pages.size > PAGED_BYTES:
            self._read |= set(pages)
            used = sum(page.size for page in self._read)
            if used > MAX_DECISION_BYTES:
                raise too_much(used)
        elif not self._values.few(self._ref["key"], pages):
            self._values.whole(self._ref)
        references = [page.reference for page in pages if page.reference is not None]
        found = self._values.found([("object", reference["key"], reference) for reference in references])
        for page, items in zip(pages, found, strict=True):
            if type(items) is not list or len(items) != page.count:
                raise TemplateError(f"reference {self._ref['key']}: one of its pages is not the page that was stored")
        return found

    def whole(self) -> Any:
        return self._values.whole(self._ref)
