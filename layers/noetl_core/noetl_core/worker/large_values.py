"""Large values of a run, of which templates read parts by their outlines."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from noetl_core.expr import TemplateError
from noetl_core.expr.errors import LimitExceeded
from noetl_core.expr.references import Path
from noetl_core.outlines import Container, OutlinedPart, Part, Span, outlined
from noetl_core.ports import NotFound, ResultStore
from noetl_core.result_refs import Altered
from noetl_core.values import at_once, stored_outline

KEPT_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of parts that are cached per run; the newest is, whatever its size."""

Name = tuple[str, ...]
"""Key, checksum and outline of a reference."""


class LargeValues:
    """Opens values that have an outline, and loads and caches parts of them.

    An object within `limit` is loaded whole, by `whole`, when parts of it come to half of its bytes. Of a larger one an
    evaluation loads at most `limit` bytes.
    """

    def __init__(self, results: ResultStore, limit: int, whole: Callable[[Mapping[str, Any]], Any]) -> None:
        self._results, self._limit, self._whole = results, limit, whole
        self._outlines: dict[Name, Container | None] = {}
        self._loaded: Counter[Name] = Counter()
        self._kept: OrderedDict[tuple[Name, Span], Any] = OrderedDict()
        self._kept_bytes = 0
        self._lock = Lock()

    def open(self, ref: Mapping[str, Any]) -> Part | None:
        """Return the value of a reference of the family, as a part of which nothing is loaded; None where all of it is to be
        loaded."""
        if not outlined(ref):
            return None
        name = (str(ref["key"]), str(ref.get("checksum")), str(ref["outline"]))
        if name not in self._outlines:
            self._outlines[name] = stored_outline(self._results, ref)
        container = self._outlines[name]
        return None if container is None else OutlinedPart(container, _Source(self, name, ref, container.size))

    def load(self, ref: Mapping[str, Any], name: Name, spans: Sequence[Span], path: Path, size: int) -> list[Any]:
        """Return the items of spans of the object of `size` bytes."""
        with self._lock:
            missing = [span for span in spans if (name, span) not in self._kept]
            self._loaded[name] += sum(span.size for span in missing)
            pays = missing and size <= self._limit and 2 * self._loaded[name] >= size
        if pays:
            value = self._whole(ref)
            for key in path:
                value = value[key]
            return [span.of(value) for span in spans]
        with reading(name[0]):
            found = dict(zip(missing, at_once(self._read, missing), strict=True))
        with self._lock:
            return [self._keep(name, span, found) for span in spans]

    def _read(self, span: Span) -> Any:
        return span.value(self._results.get(span.container.key, span.start, span.stop))

    def _keep(self, name: Name, span: Span, found: Mapping[Span, Any]) -> Any:
        if span in found:
            self._kept[name, span] = found[span]
            self._kept_bytes += span.size
        value = self._kept[name, span]
        self._kept.move_to_end((name, span))
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            (_, old), _ = self._kept.popitem(last=False)
            self._kept_bytes -= old.size
        return value

    def too_large(self, key: str, size: int) -> LimitExceeded:
        return too_large(key, size, self._limit)

    def over(self, size: int) -> bool:
        return size > self._limit


class _Source:
    """`PartSource` of one evaluation."""

    def __init__(self, values: LargeValues, name: Name, ref: Mapping[str, Any], size: int) -> None:
        self._values, self._name, self._ref, self._size = values, name, ref, size
        self._read: set[Span] = set()
        self._used = 0

    def load(self, spans: Sequence[Span], path: Path) -> Sequence[Any]:
        if self._values.over(self._size):
            new = set(spans) - self._read
            self._used += sum(span.size for span in new)
            if self._values.over(self._used):
                raise self._values.too_large(self._name[0], self._used)
            self._read |= new
        return self._values.load(self._ref, self._name, spans, path, self._size)


def too_large(key: str, size: int, limit: int) -> LimitExceeded:
    """Return the error of a template that would load too much."""
    return LimitExceeded(
        f"reference {key}: to read in it, a template would load {size} bytes, and {limit} are the most; read less of it (an item,"
        " a slice, its length), let the task that makes it return the part that is needed, read it with a task of kind duckdb as"
        " one of its sources, or raise executor.spec.policy.limits.max_input_bytes"
    )


@contextmanager
def reading(key: object) -> Iterator[None]:
    """What cannot be read is an error of the template. Raises `TemplateError`."""
    try:
        yield
    except NotFound as missing:
        raise TemplateError(f"reference {key}: {missing}") from None
    except Altered as altered:
        raise TemplateError(f"reference {key}: {altered}") from None
    except ValueError:
        raise TemplateError(f"what {key} holds is no JSON: pass the reference whole, to a tool that reads it") from None
