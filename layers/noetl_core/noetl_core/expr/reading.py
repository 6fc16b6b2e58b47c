"""What an evaluation reads: names and parts of values, with references loaded when touched, secrets noted and budgets counted.

Operators, methods and the formatting of text are written in terms of a `Reading`. What stands above them - functions, methods
found by name, calls - is in `evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar

from jinja2.runtime import LoopContext, Undefined
from jinja2.utils import Namespace

from noetl_core.expr.budget import Budget
from noetl_core.expr.errors import NoSuchName, TemplateError, UndefinedValue
from noetl_core.expr.limits import ITEM_SIZE, Limits, Missing, MissingEntry
from noetl_core.expr.references import references_in
from noetl_core.expr.scope import Pointer, Scope
from noetl_core.expr.secret import LOST, Secret
from noetl_core.expr.strict import Strict
from noetl_core.expr.values import LOOP_ATTRIBUTES, SCALARS, Group, describe, json_key
from noetl_core.expr.views import NO_VIEW, rows, view
from noetl_core.outlines import Part
from noetl_core.result_refs import is_partly_readable, is_reference

T = TypeVar("T")
ABSENT: Final = object()
LONG: Final = 4096
"""Text longer than this counts by its length when it is compared."""

GONE: Final = (
    "a secret that it reads is gone: the worker that held it ended before it could hand it on, and the log has its mask; redrive"
    " from the step that gets it"
)
DEFAULT_LIMITS: Final = Limits()
LONGEST_FALSE: Final = len("false")
"""Bytes of the longest JSON text whose value is false."""


class Reading(Budget):
    """The state of one `render` or `truthy`: what was used of the budgets, and whether a secret was read."""

    __slots__ = ("loaded", "opened", "parts", "raised", "scope", "tainted", "walked")

    def __init__(self, scope: Scope, limits: Limits = DEFAULT_LIMITS) -> None:
        Budget.__init__(self, limits)
        self.scope = scope
        self.tainted = False
        self.opened: list[Secret] = []
        """The secrets that were read."""
        self.raised: BaseException | None = None
        self.loaded = 0
        """What was loaded to make data plain, weighed."""
        self.walked: Any = None
        """The list that is being gone through: who reads one reference in it is about to read the others."""
        self.parts: dict[tuple[Any, ...], Part | None] = {}
        """What was opened of large values: key, checksum and outline of the reference -> the part that is all of it."""

    # Values and their parts

    def enter(self, value: Any) -> Any:
        """Return `value` as the template sees it: a pointer is resolved; a secret is opened and recorded."""
        if type(value) is Pointer:
            value = self._resolve(value)
        if type(value) is Secret:
            self.tainted = True
            if value not in self.opened:
                self.opened.append(value)
            value = value._value
            if type(value) is str and value == LOST:
                raise NoSuchName(GONE)
        return value

    def read(self, value: Any) -> Any:
        """Return `value` with its content available: as `enter`, and a reference is replaced by its value."""
        if type(value) is dict:
            if "kind" in value and is_reference(value):
                found = self.enter(self._resolve(value))
                return value if found is value else self.read(found)
            return value
        if type(value) is Pointer or type(value) is Secret:
            return self.read(self.enter(value))
        if type(value) is MissingEntry:
            raise NoSuchName(value._undefined_message)
        return self.of_part(value.whole) if isinstance(value, Part) else value

    def open(self, value: Any) -> Any:
        """As `read`, for who reads some of the value: of a large one that is kept elsewhere a `Part`, not loaded yet."""
        kind = type(value)
        if kind is Pointer or kind is Secret:
            value = self.enter(value)
            kind = type(value)
        if kind is dict:
            if "kind" not in value or not is_reference(value):
                return value
            part = self._part(value) if self.scope.open is not None and is_partly_readable(value) else None
            return self.read(value) if part is None else part
        return value if isinstance(value, Part) else self.read(value)

    def _part(self, reference: dict[str, Any]) -> Part | None:
        name = (reference["key"], str(reference.get("checksum")), str(reference.get("outline")))
        opened = self.scope.open
        if name not in self.parts and opened is not None:
            if self.walked is not None:
                walked, self.walked = self.walked, None
                self._prefetch(walked)
            self.parts[name] = self.of_part(lambda: opened(reference))
        return self.parts[name]

    def of_part(self, ask: Callable[[], T]) -> T:
        """Return what `ask` finds in a part. What loading raises ends the evaluation."""
        try:
            return ask()
        except BaseException as error:
            if not isinstance(error, LookupError | TypeError):
                self.raised = error
            raise

    def judge(self, value: Any) -> Any:
        """Return `value` when its truth is tested. A reference has the truth of its value; only a small value can be false."""
        if type(value) is dict and "kind" in value and is_reference(value):
            size = value.get("size")
            if type(size) is not int or size <= LONGEST_FALSE:
                return self.read(value)
        return value

    def truth(self, value: Any) -> bool:
        """Return whether `value` is true. Of a large one nothing is loaded."""
        return bool(self.judged(value))

    def judged(self, value: Any) -> Any:
        """As `read`, for who asks only whether the value is null, true or false: of a large one nothing is loaded."""
        value = self.judge(self.enter(value))
        return value if type(value) is dict or isinstance(value, Part) else self.read(value)

    def absent(self, value: Any, name: Any) -> Missing:
        """Return the value of a part that `value` does not have."""
        return MissingEntry(value.lacks(name)) if isinstance(value, Strict) else Missing(obj=value, name=name)

    def _resolve(self, value: Any) -> Any:
        if self.scope.resolve is None:
            raise TemplateError("this reads into a result that is kept elsewhere, which is not possible here")
        try:
            if self.walked is not None:
                walked, self.walked = self.walked, None
                self._prefetch(walked)
            return self.scope.resolve(value)
        except BaseException as error:
            self.raised = error
            raise

    def _prefetch(self, value: Any) -> None:
        """Say which references in `value` are about to be read, to who would rather load them together."""
        found = [] if self.scope.prefetch is None else [reference for _, reference in references_in(value)]
        try:
            if self.scope.prefetch is not None and len(found) > 1:
                self.scope.prefetch(found)
        except BaseException as error:
            self.raised = error
            raise

    def getattr(self, value: Any, name: str) -> Any:
        """`value.name`: data first, then what `beside_data` gives."""
        self.ops += 1
        if self.ops > self.check:
            self.check_limits()
        kind = type(value)
        if (kind is dict and "kind" in value and is_reference(value)) or kind is Pointer or kind is Secret:
            value = self.open(value)
            kind = type(value)
        if kind is dict:
            found = value.get(name, ABSENT)
            if found is not ABSENT:
                kind = type(found)
                return self.enter(found) if kind is Secret or kind is Pointer else found
        elif isinstance(value, Undefined):
            return value
        elif kind is LoopContext and name in LOOP_ATTRIBUTES:
            return getattr(value, name)
        elif kind is Group and name in ("grouper", "list"):
            return value[name == "list"]
        elif isinstance(value, Part):
            part = value
            try:
                return self.of_part(lambda: part[name])
            except (LookupError, TypeError):
                pass
        elif kind is Namespace or (isinstance(value, Mapping) and kind is not Namespace):
            try:
                return self.enter(value[name] if kind is not Namespace else getattr(value, name))
            except (KeyError, AttributeError):
                pass
        return self.beside_data(value, name)

    def getitem(self, value: Any, key: Any) -> Any:
        """`value[key]`."""
        self.ops += 1
        if self.ops > self.check:
            self.check_limits()
        value = self.open(value)
        if isinstance(value, Undefined):
            return value
        if isinstance(key, Undefined):
            return key
        key = self.read(key)
        kind = type(value)
        if kind not in (dict, list, tuple, Group, str, range) and not isinstance(value, Mapping | Part):
            return Missing(obj=value, name=key)
        if type(key) is str and len(key) > LONG:
            self.tick(len(key) >> 8)
        if type(key) not in SCALARS:
            return Missing(f"{type(key).__name__} is no key", obj=value)
        try:
            found = self.of_part(lambda: value[key]) if isinstance(value, Part) else value[key]
        except (LookupError, TypeError):
            if type(key) is str and key.startswith("__"):
                raise TemplateError(f"attribute {key!r} is not data; templates see plain data only") from None
            return self._viewed(value, key)
        kind = type(found)
        return self.enter(found) if kind is Secret or kind is Pointer else found

    def header(self, value: Any, key: Any) -> Any:
        """`x.headers[key]`: as `getitem`, or else whatever the case of the letters (resolution 7)."""
        headers = self.read(value)
        if type(headers) is dict and type(key) is str and key not in headers:
            self.tick(len(headers))
            wanted = key.lower()
            for name in headers:
                if type(name) is str and name.lower() == wanted:
                    return self.enter(headers[name])
        return self.getattr(headers, key) if type(key) is str else self.getitem(headers, key)

    def header_get(self, value: Any, key: Any, default: Any = None) -> Any:
        """`x.headers.get(key, default)`."""
        found = self.header(value, key)
        return default if isinstance(found, Undefined) else found

    def slice(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """`value[start:stop:step]`."""
        value = self.as_list(self.open(value))
        if isinstance(value, Undefined):
            return value
        in_part = isinstance(value, Part) and value.kind is list
        if type(value) not in (str, list, tuple, Group, range) and not in_part:
            raise TemplateError(f"a {describe(value)} cannot be sliced")
        part = slice(*(None if isinstance(i, Undefined) else i for i in (start, stop, step)))
        size = len(range(*part.indices(len(value))))
        self.charge(size if type(value) is str else size * ITEM_SIZE)
        if in_part:
            return self.of_part(lambda: value.slice(part))
        return list(value[part]) if type(value) is range else value[part]

    def beside_data(self, value: Any, name: str) -> Any:
        """What `value.name` is where the data of `value` has no such part."""
        if name.startswith("__"):
            raise TemplateError(f"attribute {name!r} is not data; templates see plain data only")
        return self._viewed(value, name)

    def _viewed(self, value: Any, key: Any) -> Any:
        """What a part that the data of `value` does not have means all the same (`expr.views`)."""
        if type(value) is dict or (isinstance(value, Part) and value.kind is dict):
            if type(key) is int:
                listed = self.as_list(value)
                return self.absent(value, key) if listed is value else self.getitem(listed, key)
            found = self.of_part(lambda: view(value, key)) if type(key) is str else NO_VIEW
            if found is not NO_VIEW:
                return self.enter(found)
        return self.absent(value, key)

    def as_list(self, value: Any) -> Any:
        """`value`, read, where a list is wanted: the rows of what SQL gives."""
        of_part = isinstance(value, Part) and value.kind is dict
        listed = self.of_part(lambda: rows(value)) if of_part else rows(value) if type(value) is dict else None
        return value if listed is None else self.open(listed)

    def key(self, key: Any) -> Any:
        """`key` if a mapping may have it."""
        key = self.read(key)
        if type(key) not in SCALARS:
            raise TemplateError(f"a {describe(key)} cannot be a key")
        return key

    # Sequences

    def iterate(self, value: Any) -> Any:
        """Return what `for` walks over: a sized list of entered items."""
        return Items(self, self.items(value))

    def items(self, value: Any) -> list[Any] | tuple[Any, ...] | range:
        """Return the items of any sequence, mapping (its keys) or text, and count them."""
        value = self.read(self.as_list(self.read(value)))
        kind = type(value)
        if kind is list or kind is tuple or kind is range or kind is Group:
            self.tick(len(value) >> 4)
            return value  # type: ignore[no-any-return]
        if isinstance(value, Undefined):
            return ()
        if kind is dict or kind is str:
            self.charge_items(len(value))
            return list(value)
        if isinstance(value, Items):
            return value.values
        if isinstance(value, Mapping) and kind is not Namespace:
            return list(value)
        raise TemplateError(f"a {describe(value)} cannot be iterated over")

    def each(self, value: Any) -> Iterator[Any]:
        """Yield the items one by one, each entered and counted."""
        items = self.walked = self.items(value)
        for item in items:
            self.tick()
            kind = type(item)
            yield self.enter(item) if kind is Secret or kind is Pointer else item

    # Text and plain data

    def text(self, value: Any) -> str:
        """`value` as it stands in text (Jinja2's rules: `None`, `True`, and Python's notation of lists and mappings)."""
        kind = type(value)
        if kind is str:
            return value  # type: ignore[no-any-return]
        if kind is int or kind is float or kind is bool or value is None:
            return str(value)
        if isinstance(value, Undefined):
            self.read(value)
            return ""
        value = self.plain(self.read(value))
        if type(value) is str:
            return value
        self.charge(self.weight * 2)
        return str(value)

    def plain(self, value: Any, *, undefined_ok: bool = True, keep_secrets: bool = False, keep_references: bool = False) -> Any:
        """`value` as JSON data: tuples as lists, keys as text, secrets opened and noted, pointers and references resolved.

        `weight` is then about how many characters it takes as JSON.
        """
        if self.weigh(value):
            return value
        own, before = self.weight, self.loaded
        if not keep_references and self.scope.prefetch is not None:
            self._prefetch(value)
        plain = self._plain(value, undefined_ok, keep_secrets, keep_references)
        self.weight = own + self.loaded - before
        return plain

    def _plain(self, value: Any, undefined_ok: bool, keep_secrets: bool, keep_references: bool) -> Any:
        kind = type(value)
        if kind in SCALARS:
            return value
        if kind is dict:
            if not keep_references and "kind" in value and is_reference(value):
                found = self.read(value)
                if found is not value:
                    found = self.plain(found, undefined_ok=undefined_ok, keep_secrets=keep_secrets)
                    self.loaded += self.weight
                    return found
            self.charge_items(len(value) * 2)
            return {json_key(k): self._plain(v, undefined_ok, keep_secrets, keep_references) for k, v in value.items()}
        if kind is list or kind is tuple or kind is range or kind is Group:
            self.charge_items(len(value))
            return [self._plain(v, undefined_ok, keep_secrets, keep_references) for v in value]
        if kind is Secret:
            if keep_secrets:
                return value
            return self._plain(self.enter(value), undefined_ok, keep_secrets, keep_references)
        if kind is Pointer:
            return self._plain(self.enter(value), undefined_ok, keep_secrets, keep_references)
        if isinstance(value, Part):
            found = self.plain(self.read(value), undefined_ok=undefined_ok, keep_references=keep_references)
            self.loaded += self.weight
            return found
        if isinstance(value, Undefined):
            self.read(value)
            if undefined_ok:
                return None
            raise UndefinedValue(value._undefined_message)
        if isinstance(value, Mapping) and kind is not Namespace:
            return {json_key(k): self._plain(v, undefined_ok, keep_secrets, keep_references) for k, v in value.items()}
        return self._refuse(value)

    def _refuse(self, value: Any) -> NoReturn:
        raise TemplateError(f"a {describe(value)} is not data")


class Items:
    """A counted walk over a list, as `for` needs it: sized, so that `loop.length` is known."""

    __slots__ = ("reading", "values")

    def __init__(self, reading: Reading, values: list[Any] | tuple[Any, ...] | range) -> None:
        self.reading = reading
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return self.reading.each(self.values)
