"""Parts of large values that a decision reads: it asks for the outline of a value, then for the spans that its templates read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from noetl_core.engine.needs import AskedNeed, Need, Unreadable, named
from noetl_core.expr import LimitExceeded, TemplateError
from noetl_core.expr.references import Path
from noetl_core.outlines import Container, OutlinedPart, Part, Span, outlined

MAX_DECISION_BYTES: Final = 8 * 1024 * 1024
"""The most bytes that a guard or an argument may read behind one reference; more is an error of the author (`kind: limit`)."""
FEW: Final = 4
"""Of an object within that limit all is loaded when more of its parts were read: each question is a decision begun anew."""


Ask = Callable[[Sequence[AskedNeed]], NoReturn]
"""Raises `NeedValues`."""


def outline_need(ref: Mapping[str, Any]) -> AskedNeed:
    return ("outline", ref["key"], ref["outline"], str(ref.get("checksum")), ref)


def prefetched(ref: Mapping[str, Any]) -> AskedNeed:
    """Return what to load of a reference before templates read it: the whole, or the outline of what is too large for that."""
    size = ref.get("size")
    if outlined(ref) and type(size) is int and size > MAX_DECISION_BYTES:
        return outline_need(ref)
    return ("object", ref["key"], ref)


def too_much(size: int) -> LimitExceeded:
    return LimitExceeded(
        f"a decision would read {size} bytes behind one reference, and {MAX_DECISION_BYTES} are the most; read less of it (an"
        " item, a slice, its length), or compute what it needs in a task"
    )


class LargeValues:
    """The large values that one decision reads."""

    def __init__(self, values: Mapping[Need, Any], ask: Ask) -> None:
        self._values, self._ask = values, ask
        self._read: dict[str, set[Span]] = {}

    def open(self, ref: Mapping[str, Any]) -> Part | None:
        """Return the value of a reference as a part of which nothing is loaded; None where all of it is to be loaded, or is."""
        if not outlined(ref) or ("object", ref["key"]) in self._values:
            return None
        need = outline_need(ref)
        container: Container | None = self.found([need])[0]
        return None if container is None else OutlinedPart(container, _Source(self, ref, container.size))

    def found(self, needs: Sequence[AskedNeed]) -> list[Any]:
        """Return the values of needs, or ask for those that are missing."""
        missing = [need for need in needs if named(need) not in self._values]
        if missing:
            self._ask(missing)
        return [self._values[named(need)] for need in needs]

    def whole(self, ref: Mapping[str, Any]) -> NoReturn:
        """Ask for all of an object. The decision that then begins anew finds it."""
        self._ask([("object", ref["key"], ref)])

    def few(self, key: str, spans: Sequence[Span]) -> bool:
        """Return whether these spans and what was read of the object before are few."""
        read = self._read.setdefault(key, set())
        read |= set(spans)
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
        found = self._values.found([("part", self._ref["key"], span) for span in spans])
        for value in found:
            if isinstance(value, Unreadable):
                raise TemplateError(value.reason)
        return found
