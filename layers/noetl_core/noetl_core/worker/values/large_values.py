"""Large values of a run: templates read parts of them by their outlines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from cachetools import LRUCache

from noetl_core.expr import TemplateError
from noetl_core.expr.errors import LimitExceeded
from noetl_core.expr.references import Path
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.stored_values import Values
from noetl_core.ports import NotFound, ResultStore
from noetl_core.values.outlines import Container, OutlinedPart, Page, PagedPart, Pages, Part, Span
from noetl_core.values.result_refs import Altered, is_partly_readable

KEPT_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of parts that a run caches. A larger part is cached, too, alone."""

Name = tuple[str, ...]
"""Key, checksum and outline of a reference."""


class LargeValues:
    """Opens values that have an outline, and loads and caches parts of them.

    An object within `limit` is loaded whole, by `whole`, once the loaded parts come to half of its bytes. Of a larger object, one
    evaluation loads at most `limit` bytes.
    """

    def __init__(self, results: ResultStore, values: Values, limit: int, whole: Callable[[Mapping[str, Any]], Any]) -> None:
        self._results, self._values, self._limit, self.whole = results, values, limit, whole
        self._outlines: dict[Name, Container | Pages | None] = {}
        self._loaded: Counter[Name] = Counter()
        self._kept: LRUCache[tuple[Name, Span], tuple[int, Any]] = LRUCache(KEPT_BYTES, getsizeof=lambda kept: kept[0])
        """Parts with their bytes."""
        self._lock = Lock()

    def open(self, ref: Mapping[str, Any]) -> Part | None:
        """Return the value of a reference of the family as a part with nothing loaded yet; None if it must be loaded whole."""
        if not is_partly_readable(ref):
            return None
        name = (str(ref["key"]), str(ref.get("checksum")), str(ref.get("outline")), str(ref.get("schema_hint")))
        if name not in self._outlines:
            self._outlines[name] = self._values.outline(ref, self._limit)
        found = self._outlines[name]
        if isinstance(found, Pages):
            return PagedPart(found, _PageSource(self, name, ref, found))
        return None if found is None else OutlinedPart(found, _Source(self, name, ref, found.size))

    def page(self, page: Page) -> list[Any] | Part:
        """Return the items of a page, which is a reference."""
        items = self.open(page.reference or {})
        return self.whole(page.reference or {}) if items is None else items

    def should_load_whole(self, name: Name, loaded: int, size: int) -> bool:
        """Count `loaded` bytes that are about to be loaded. Returns whether loading the whole value is cheaper."""
        with self._lock:
            self._loaded[name] += loaded
            return loaded > 0 and size <= self._limit and 2 * self._loaded[name] >= size

    def load(self, ref: Mapping[str, Any], name: Name, spans: Sequence[Span], path: Path, size: int) -> list[Any]:
        """Return the items of spans of an object of `size` bytes."""
        with self._lock:
            kept = {span: self._kept[name, span][1] for span in spans if (name, span) in self._kept}
            missing = [span for span in spans if span not in kept]
        if self.should_load_whole(name, sum(span.size for span in missing), size):
            value = self.whole(ref)
            for key in path:
                value = value[key]
            return [span.of(value) for span in spans]
        with template_errors(name[0]):
            found = dict(zip(missing, read_concurrently(self._read, missing), strict=True))
        self._keep(name, {**found, **kept})
        return [found[span] if span in found else kept[span] for span in spans]

    def _read(self, span: Span) -> Any:
        return span.value(self._results.get(span.container.key, span.start, span.stop))

    def _keep(self, name: Name, used: Mapping[Span, Any]) -> None:
        with self._lock:
            for span, value in used.items():
                self._kept[name, span] = min(span.size, KEPT_BYTES), value

    def too_large(self, key: str, size: int) -> LimitExceeded:
        return too_large(key, size, self._limit)

    def exceeds_limit(self, size: int) -> bool:
        return size > self._limit


class _Source:
    """`PartSource` of one evaluation."""

    def __init__(self, values: LargeValues, name: Name, ref: Mapping[str, Any], size: int) -> None:
        self._values, self._name, self._ref, self._size = values, name, ref, size
        self._read: set[Span] = set()
        self._used = 0

    def load(self, spans: Sequence[Span], path: Path) -> Sequence[Any]:
        if self._values.exceeds_limit(self._size):
            new = set(spans) - self._read
            self._used += sum(span.size for span in new)
            if self._values.exceeds_limit(self._used):
                raise self._values.too_large(self._name[0], self._used)
            self._read |= new
        return self._values.load(self._ref, self._name, spans, path, self._size)


class _PageSource:
    """`PageSource` of one evaluation."""

    def __init__(self, values: LargeValues, name: Name, ref: Mapping[str, Any], pages: Pages) -> None:
        self._values, self._name, self._ref, self._pages = values, name, ref, pages
        self._read: set[Page] = set()

    def load(self, numbers: Sequence[int]) -> Sequence[list[Any] | Part]:
        pages = [self._pages.pages[number] for number in numbers]
        if self._values.exceeds_limit(self._pages.size):
            self._read |= set(pages)
            used = sum(page.size for page in self._read)
            if self._values.exceeds_limit(used):
                raise self._values.too_large(self._name[0], used)
        elif self._values.should_load_whole(self._name, sum(page.size for page in pages), self._pages.size):
            whole, firsts = self.whole(), self._pages.firsts
            return [whole[firsts[number] : firsts[number + 1]] for number in numbers]
        found = list(map(self._values.page, pages))
        for page, items in zip(pages, found, strict=True):
            if (type(items) is not list and not isinstance(items, Part)) or len(items) != page.count:
                raise TemplateError(f"reference {self._name[0]}: one of its pages is not the page that was stored")
        return found

    def whole(self) -> Any:
        return self._values.whole(self._ref)


def too_large(key: str, size: int, limit: int) -> LimitExceeded:
    """Return the error for a template that would load too much."""
    return LimitExceeded(
        f"reference {key}: a template would load {size} bytes of it (the limit is {limit}); read less of it (an item,"
        " a slice, its length), let the task that makes it return the part that is needed, read it with a task of kind duckdb as"
        " one of its sources, or raise executor.spec.policy.limits.max_input_bytes"
    )


@contextmanager
def template_errors(key: object) -> Iterator[None]:
    """Turn failures to read into errors of the template. Raises `TemplateError`."""
    try:
        yield
    except NotFound as missing:
        raise TemplateError(f"reference {key}: {missing}") from None
    except Altered as altered:
        raise TemplateError(f"reference {key}: {altered}") from None
    except ValueError:
        raise TemplateError(f"the object {key} is not JSON: pass its whole reference to a tool that reads it") from None
