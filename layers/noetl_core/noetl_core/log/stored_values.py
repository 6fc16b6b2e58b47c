"""Loads the values of pointers and references from the log and the result store, with limits and a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Protocol

from noetl_core.engine.large_values import MAX_DECISION_BYTES, PAGED_BYTES
from noetl_core.engine.needs import AskedNeed, Need, NeedValues, TooMuch, Unreadable, without_reference
from noetl_core.engine.records import StreamId, request_of
from noetl_core.engine.state import caller_of
from noetl_core.events.shapes import ResultPointer
from noetl_core.expr import is_reference, path_text, references_in, replaced
from noetl_core.expr.references import Path
from noetl_core.log.concurrent_reads import read_concurrently
from noetl_core.log.load_budgets import LoadBudget, LoadLimitExceeded
from noetl_core.ports import CorruptLog, EventStore, NotFound, ObjectWriter, ResultStore
from noetl_core.values.large_json import JsonText
from noetl_core.values.outlines import MOST_OUTLINE_BYTES, Container, Page, Pages, Span, checksum_of, outline_key, read_outline
from noetl_core.values.result_refs import MANIFEST, MARK, Altered, is_plain
from noetl_core.values.strict_json import parsed

PAGES = PAGED_BYTES // MAX_DECISION_BYTES
"""A list in pages may have this many times the limit of a value."""
NESTED_MANIFESTS = 4
"""Maximum depth of nested manifests that are read by page. The chunks of a loop have manifests of their own."""


class _TooMuch(Exception):
    """The object is larger than the limit."""

    def __init__(self, size: int) -> None:
        super().__init__(str(size))
        self.size = size


MAX_ANCESTORS = 100
"""Maximum number of ancestors of an execution that are followed, far more than the allowed depth of children."""


class Family:
    """The executions whose objects an execution may read: itself, and all with the same first ancestor.

    This covers results of children and references that a parent passes on. A reference in a tool's answer may name any key;
    outside the family it is plain data.
    """

    def __init__(self, store: EventStore, execution_id: str) -> None:
        self._store, self._execution_id = store, execution_id
        self._known: dict[str, bool] = {execution_id: True}
        self._first: str | None = None

    def owns(self, ref: Mapping[str, Any]) -> bool:
        """Return whether data that looks like a reference names an object of the family."""
        return self.has(str(ref["key"]))

    def has(self, key: str) -> bool:
        """Return whether a key belongs to an object of the family."""
        if not is_plain(key):
            return False
        owner = key.partition("/")[0]
        if owner not in self._known:
            number = owner.isascii() and owner.isdecimal() and len(owner) <= 19
            first = self._ancestor(owner) if number else None
            self._known[owner] = first is not None and first == self.first()
        return self._known[owner]

    def first(self) -> str | None:
        """Return the first ancestor of the execution; None if there is no log."""
        if self._first is None:
            self._first = self._ancestor(self._execution_id)
        return self._first

    def _ancestor(self, execution_id: str) -> str | None:
        """Return the first ancestor of an execution; None if there is no log."""
        for _ in range(MAX_ANCESTORS):
            commits = self._store.read(StreamId(execution_id), limit=1)
            if not commits:
                return None
            caller = caller_of(request_of(commits[0]).get("parent"))
            if caller is None:
                break
            execution_id = caller
        return execution_id


class FamilyResults:
    """The result store for the tools of one execution: they read objects of the family and write their own."""

    def __init__(self, results: ResultStore, family: Family, execution_id: str) -> None:
        self._results, self._family, self._own = results, family, f"{execution_id}/"

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        return self._results.put(self._owned(key), body, content_type)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        return self._results.get(self._allowed(key), start, end)

    def url(self, key: str) -> str:
        return self._results.url(self._allowed(key))

    def writer(self, key: str, content_type: str = "application/json") -> ObjectWriter:
        return self._results.writer(self._owned(key), content_type)

    def _owned(self, key: str) -> str:
        if not key.startswith(self._own):
            raise NotFound(f"{key[:200]} is not a key of this execution")
        return key

    def _allowed(self, key: str) -> str:
        if not self._family.has(key):
            raise NotFound(f"{key[:200]} is not an object of this execution or its family")
        return key


PUBLISHED: Final = "artifacts"


def published_key(execution_id: str, name: str) -> str:
    """Return the key of an object that an execution publishes for all others."""
    return f"{execution_id}/{PUBLISHED}/{name}"


class PublishedResults:
    """The published objects of all executions, and no others."""

    def __init__(self, results: ResultStore) -> None:
        self._results = results

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        parts = key.split("/")
        if len(parts) != 3 or parts[1] != PUBLISHED or not is_plain(key):
            raise NotFound(f"{key[:200]} is not an object that an execution published")
        return self._results.get(key, start, end)


def with_outline(results: _Puts, ref: dict[str, Any], outline: bytes | None) -> dict[str, Any]:
    """Store the outline of an object, unless it is None, and return the reference with it."""
    if outline is None:
        return ref
    checksum = checksum_of(outline)
    results.put(outline_key(ref["key"], checksum), outline)
    return {**ref, "outline": checksum}


class _Puts(Protocol):
    def put(self, key: str, body: bytes, content_type: str = ...) -> Mapping[str, Any]: ...


def stored_outline(results: ResultStore, ref: Mapping[str, Any]) -> Container | None:
    """Return the outline of an object of the family; None if there is none for this object and format: it is then read whole."""
    try:
        body = results.get(outline_key(ref["key"], str(ref["outline"])), 0, MOST_OUTLINE_BYTES + 1)
    except NotFound:
        return None
    container = read_outline(ref, body)
    return container if container is not None and (container.kind == "lines") == _in_lines(ref) else None


def _in_lines(ref: Mapping[str, Any]) -> bool:
    """Return whether an object is read as JSON lines."""
    return ref.get("format") == "jsonl" or str(ref["key"]).endswith(".jsonl")


class Values:
    """Loads the values of stored pointers and of a decision's `Need`s, for one execution."""

    def __init__(
        self, store: EventStore, results: ResultStore, execution_id: str, limit: int | None = MAX_DECISION_BYTES
    ) -> None:
        self._store = store
        self._results = results
        self._execution_id = execution_id
        self._limit = limit
        self.family = Family(store, execution_id)
        self._unstored: dict[str, bytes] = {}

    def supply(self, known: dict[Need, Any], missing: NeedValues) -> None:
        """Load the values that a decision needs into `known`."""
        self._unstored.update(missing.objects)
        for need, value in zip(missing.needs, read_concurrently(self, missing.needs), strict=True):
            known[without_reference(need)] = value

    def __call__(self, need: AskedNeed) -> Any:
        """Return the value of a need."""
        if need[0] == "boundary":
            return self.boundary(need[1], need[2])
        if need[0] == "writes":
            return self.boundary(need[1], need[2])["ctx_writes"]
        if need[0] == "part":
            return self._part(need[2])
        if need[0] == "outline":
            return self.outline(need[4]) if self.family.owns(need[4]) else None
        ref = need[2]
        if not self.family.owns(ref):
            return ref
        if self._limit is not None and claimed(ref) > self._limit:
            return TooMuch(claimed(ref))
        try:
            return self.reference(ref)
        except (_TooMuch, LoadLimitExceeded) as more:
            return TooMuch(more.size)
        except (NotFound, ValueError) as error:
            return Unreadable(f"reference {ref['key']}: {error}")

    def outline(self, ref: Mapping[str, Any], limit: int | None = None) -> Container | Pages | None:
        """Return the outline or the pages of a value of the family; None if it must be loaded whole. At most `limit` bytes are
        loaded for this."""
        if ref.get("schema_hint") != MANIFEST:
            return stored_outline(self._results, ref)
        try:
            return Pages(tuple(self._pages(ref, LoadBudget(limit or self._limit or claimed(ref)), NESTED_MANIFESTS)))
        except (NotFound, ValueError, LoadLimitExceeded):
            return None

    def _pages(self, ref: Mapping[str, Any], budget: LoadBudget, depth: int) -> Iterator[Page]:
        """Yield the pages of a list, including those of nested manifests. Raises `ValueError` if the length of a page is
        unknown."""
        budget.take(claimed(ref))
        body = self._body(ref["key"], budget)
        if ref.get("checksum") != f"sha256:{sha256(body).hexdigest()}":
            raise Altered(ref["key"])
        owner = str(ref["key"]).partition("/")[0]
        values = self if owner == self._execution_id else Values(self._store, self._results, owner, self._limit)
        for page in read_concurrently(values._result_of, _manifest(body)):
            if not is_reference(page):
                if not isinstance(page or [], list):
                    raise ValueError("one of its pages is not a list")
                yield Page(len(page or []), page or [])
            elif not self.family.owns(page):
                raise ValueError("one of its pages belongs to another execution")
            elif page.get("schema_hint") == MANIFEST and depth:
                yield from self._pages(page, budget, depth - 1)
            else:
                yield Page(_length(page), reference=page, size=claimed(page))

    def _result_of(self, part: Mapping[str, Any]) -> Any:
        """Return the page of a manifest entry: the list, or a reference to it."""
        return part["result"] if "result" in part else self.boundary(part["run"], part["seq"]).get("result")

    def _part(self, span: Span) -> Any:
        try:
            return span.value(self._results.get(span.container.key, span.start, span.stop))
        except (NotFound, ValueError) as error:
            return Unreadable(f"reference {span.container.key}: {error}")

    def boundary(self, run_id: str, seq: int) -> Mapping[str, Any]:
        """Return the data of the last event of a run's commit."""
        commits = self._store.read(StreamId(self._execution_id, run_id), after=seq - 1, limit=1)
        if not commits:
            raise CorruptLog(f"run {run_id} of execution {self._execution_id} has no commit {seq}")
        return commits[0].events[-1].data

    def at(self, at: ResultPointer | None) -> Any:
        """Return the value of a stored pointer (`{run, seq}` or `{value}`); references stay references."""
        if at is None:
            return None
        return at["value"] if "value" in at else self.boundary(at["run"], at["seq"]).get("result")

    def reference(self, ref: Mapping[str, Any]) -> Any:
        """Return the value of a `result_ref` (resolution 22). It may contain references. Data that only looks like a
        reference is returned as it is.

        Raises `NotFound`, `ValueError`.
        """
        return self.opened(ref)[0] if self.family.owns(ref) else ref

    def beginning(self, ref: Mapping[str, Any], size: int) -> str:
        """Return the first `size` bytes of the JSON text that a reference names. Raises `NotFound`."""
        return self._results.get(ref["key"], 0, size).decode("utf-8", "ignore")

    def opened(self, ref: Mapping[str, Any], budget: LoadBudget | None = None, *, texts: bool = False) -> tuple[Any, bool]:
        """Return the value of a reference of the family, as `reference`, and whether the value may contain references.

        With `texts`, a large value without references stays `JsonText` if its outline proves that it is valid: the engine has
        encoded it, or has read all of it.
        """
        body = self._unstored.get(ref["key"]) or self._body(ref["key"], budget)
        if budget is not None:
            budget.take(len(body) - claimed(ref))
        if ref.get("checksum") != f"sha256:{sha256(body).hexdigest()}":
            raise Altered(ref["key"])
        if ref.get("schema_hint") == MANIFEST:
            owner = str(ref["key"]).partition("/")[0]  # a child's result names runs of the child
            values = self if owner == self._execution_id else Values(self._store, self._results, owner, self._limit)
            if budget is None and self._limit is not None:
                budget = LoadBudget(PAGES * self._limit)
            pages = read_concurrently(lambda part: values._page(part, budget), _manifest(body))
            return [item for page in pages for item in page], True
        nested = MARK in body
        if _in_lines(ref):
            return [parsed(line) for line in body.splitlines() if line.strip()], nested
        if texts and not nested and "outline" in ref and stored_outline(self._results, ref) is not None:
            return JsonText(body), nested
        return parsed(body), nested

    def whole(self, value: Any, budget: LoadBudget | None = None, opened: Open | None = None, place: Path = ()) -> Any:
        """Return `value` with all references in it replaced by their values, at any depth. Lists and mappings without
        references are shared.

        `opened` replaces the function that opens references; `place` is the path of the value, for errors. Raises
        `LoadLimitExceeded`, `NotFound`, `ValueError`, each with the path.
        """
        return self._whole(value, budget, place, opened or self.opened)

    def _whole(self, value: Any, budget: LoadBudget | None, place: Path, opened: Open) -> Any:
        found = references_in(value, self.family.owns)
        if not found:
            return value
        if budget is not None:
            for path, ref in found:
                budget.take(claimed(ref), (*place, *path))

        def load(one: tuple[Path, Mapping[str, Any]]) -> Any:
            path, ref = (*place, *one[0]), one[1]
            try:
                loaded, nested = opened(ref, budget)
            except LoadLimitExceeded as full:
                raise LoadLimitExceeded(full.size, full.limit, full.path or path) from None
            except NotFound as error:
                raise NotFound(f"{path_text(path)}: {error}") from None
            except ValueError as error:
                why = str(error) if isinstance(error, Altered) else f"the content of {ref['key']} is not JSON"
                raise Unusable(path, why) from error
            return self._whole(loaded, budget, path, opened) if nested else loaded

        return replaced(value, list(zip((path for path, _ in found), read_concurrently(load, found), strict=True)))

    def _body(self, key: str, budget: LoadBudget | None = None) -> bytes:
        """Return the object. At most the limit is read, whatever size the reference states."""
        limit = self._limit if budget is None else budget.limit
        if limit is None:
            return self._results.get(key)
        body = self._results.get(key, 0, limit + 1)
        if len(body) > limit:
            raise _TooMuch(len(body)) if budget is None else LoadLimitExceeded(len(body), limit)
        return body

    def _page(self, part: Mapping[str, Any], budget: LoadBudget | None) -> Any:
        """Return the results of one chunk, in index order."""
        result: Any = self._result_of(part)
        if is_reference(result) and self.family.owns(result):
            if budget is not None:
                budget.take(claimed(result))
            result = self.opened(result, budget)[0]
        if not isinstance(result or [], list):
            raise ValueError("one of its pages is not a list")
        return result or []


def _manifest(body: bytes) -> list[Mapping[str, Any]]:
    """Return the parts of a list that is stored in pages. Raises `ValueError`."""
    parts = parsed(body)
    if not isinstance(parts, list) or not all(map(_is_part, parts)):
        raise ValueError("it is not a list of pages")
    return parts


def _length(page: Mapping[str, Any]) -> int:
    """Return the number of items of a referenced page, which is part of the reference. Raises `ValueError`."""
    hint = page.get("schema_hint")
    length = hint.get("length") if isinstance(hint, Mapping) and hint.get("type") == "list" else None
    if type(length) is not int or not 0 <= length <= claimed(page):
        raise ValueError("the length of one of its pages is unknown")
    return length


def _is_part(part: Any) -> bool:
    if not isinstance(part, Mapping):
        return False
    return "result" in part or (isinstance(part.get("run"), str) and type(part.get("seq")) is int)


Open = Callable[[Mapping[str, Any], LoadBudget | None], tuple[Any, bool]]


def claimed(ref: Mapping[str, Any]) -> int:
    """Return the size that a reference states."""
    size = ref.get("size")
    return size if type(size) is int and size > 0 else 0


class Unusable(ValueError):
    """A reference names an object that is not a value. Who acts: the author."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path_text(path)}: {why}" if path else why)
