"""The reads of an evaluation: names and parts of values, with references loaded on access, secrets recorded and budgets counted.

Operators, methods and the formatting of text use a `Reading`; `evaluation` adds functions, lookups of methods and calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar

from jinja2.runtime import LoopContext, Undefined
from jinja2.utils import Namespace

from noetl_core.expr.budget import Budget, width
from noetl_core.expr.errors import NoSuchName, TemplateError, UndefinedValue
from noetl_core.expr.evaluation_limits import ITEM_SIZE, Limits, Missing, MissingEntry, MissingName
from noetl_core.expr.references import references_in
from noetl_core.expr.scope import Pointer, Scope
from noetl_core.expr.secret import LOST, Secret
from noetl_core.expr.strict import Strict, may_lack, remedy_for
from noetl_core.expr.values import LOOP_ATTRIBUTES, SCALARS, Group, describe, json_key
from noetl_core.expr.views import NO_VIEW, rows, view
from noetl_core.values.outlines import Part
from noetl_core.values.result_refs import is_partly_readable, is_reference

T = TypeVar("T")
ABSENT: Final = object()
LONG: Final = 4096
"""A comparison of longer text is charged by its length."""

GONE: Final = (
    "a secret is gone: the worker that held it ended before it could hand the secret on, and the log has only a mask; redrive"
    " from the step that gets the secret"
)
DEFAULT_LIMITS: Final = Limits()
LONGEST_FALSE: Final = len("false")
"""Bytes of the longest JSON text whose value is falsy."""


class Reading(Budget):
    """The state of one `render` or `truthy`: the used budgets, and the secrets that were read."""

    __slots__ = ("blank", "is_condition", "loaded", "opened", "parts", "raised", "scope", "tainted", "walked")

    def __init__(self, scope: Scope, limits: Limits = DEFAULT_LIMITS) -> None:
        Budget.__init__(self, limits)
        self.scope = scope
        self.tainted = False
        self.opened: list[Secret] = []
        """The secrets that were read."""
        self.raised: BaseException | None = None
        self.blank: list[Undefined] | None = None
        """The undefined values that counted as empty."""
        self.is_condition = False
        """If true, the template is a condition: an undefined value is false, and no warning."""
        self.loaded = 0
        """Values that were loaded to make data plain, already weighed."""
        self.walked: Any = None
        """The list being iterated: when one reference in it is read, the others soon will be."""
        self.parts: dict[tuple[Any, ...], Part | None] = {}
        """Opened large values: key, checksum and outline of the reference -> the part that is the whole value."""

    def check_limits(self) -> None:
        super().check_limits()
        if self.scope.check is not None:
            self.scope.check()

    # Values and their parts

    def enter(self, value: Any) -> Any:
        """Return `value` as the template sees it: pointers resolved, secrets opened and recorded."""
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
        """Like `enter`, and replace a reference by its value."""
        if type(value) is dict:
            if "kind" in value and is_reference(value):
                found = self.enter(self._resolve(value))
                return value if found is value else self.read(found)
            return value
        if type(value) is Pointer or type(value) is Secret:
            return self.read(self.enter(value))
        if isinstance(value, MissingEntry):
            raise value.failure()
        return self.of_part(value.whole) if isinstance(value, Part) else value

    def open(self, value: Any) -> Any:
        """Like `read`, for reads of parts: a large stored value becomes a `Part`, with nothing loaded yet."""
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
        """Return the result of `ask`, which reads a part. An error of loading ends the evaluation."""
        try:
            return ask()
        except BaseException as error:
            if not isinstance(error, LookupError | TypeError):
                self.raised = error
            raise

    def judge(self, value: Any) -> Any:
        """Return `value` for a test of its truth. A reference has the truth of its value; a large value is always true."""
        if type(value) is dict and "kind" in value and is_reference(value):
            size = value.get("size")
            if type(size) is not int or size <= LONGEST_FALSE:
                return self.read(value)
        elif type(value) is MissingName:
            raise value.failure()
        return value

    def truth(self, value: Any) -> bool:
        """Return whether `value` is truthy, without loading a large one."""
        return bool(self.judged(value))

    def judged(self, value: Any) -> Any:
        """Like `read`, for tests of null, true or false: a large value is not loaded."""
        value = self.judge(self.enter(value))
        return value if type(value) is dict or isinstance(value, Part) else self.read(value)

    def absent(self, value: Any, name: Any) -> Missing:
        """Return the undefined value for a name that `value` lacks."""
        if isinstance(value, Strict):
            return MissingEntry(value.lacks(name))
        missing = Missing(obj=value, name=name)
        if not self.scope.strict or may_lack(value, name):
            return missing
        return MissingName(f"{missing._undefined_message}{remedy_for(name, value)}", obj=value, name=name)

    def _resolve(self, value: Any) -> Any:
        if self.scope.resolve is None:
            raise TemplateError("this reads a part of a result that is stored outside the log, which is not possible here")
        try:
            if self.walked is not None:
                walked, self.walked = self.walked, None
                self._prefetch(walked)
            return self.scope.resolve(value)
        except BaseException as error:
            self.raised = error
            raise

    def _prefetch(self, value: Any) -> None:
        """Announce the references in `value` that will be read next, so that they can be loaded together."""
        found = [] if self.scope.prefetch is None else [reference for _, reference in references_in(value)]
        try:
            if self.scope.prefetch is not None and len(found) > 1:
                self.scope.prefetch(found)
        except BaseException as error:
            self.raised = error
            raise

    def getattr(self, value: Any, name: str) -> Any:
        """`value.name`: data first, then `beside_data`."""
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
        """`x.headers[key]`: like `getitem`, otherwise ignoring letter case (resolution 7)."""
        headers = self.read(value)
        if type(headers) is dict and type(key) is str and key not in headers:
            self.tick(len(headers))
            lower = key.lower()
            for name in headers:
                if type(name) is str and name.lower() == lower:
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
        self.charge(size * width(value) if type(value) is str else size * ITEM_SIZE)
        if in_part:
            return self.of_part(lambda: value.slice(part))
        return list(value[part]) if type(value) is range else value[part]

    def beside_data(self, value: Any, name: str) -> Any:
        """Return `value.name` if the data of `value` lacks the name: a method or a view."""
        if name.startswith("__"):
            raise TemplateError(f"attribute {name!r} is not data; templates see plain data only")
        return self._viewed(value, name)

    def _viewed(self, value: Any, key: Any) -> Any:
        """Return the view (`expr.views`) for a key that the data of `value` lacks."""
        if type(value) is dict or (isinstance(value, Part) and value.kind is dict):
            if type(key) is int:
                listed = self.as_list(value)
                return self.absent(value, key) if listed is value else self.getitem(listed, key)
            found = self.of_part(lambda: view(value, key)) if type(key) is str else NO_VIEW
            if found is not NO_VIEW:
                return self.enter(found)
        return self.absent(value, key)

    def as_list(self, value: Any) -> Any:
        """Return `value` for use as a list: an SQL result becomes its rows."""
        of_part = isinstance(value, Part) and value.kind is dict
        listed = self.of_part(lambda: rows(value)) if of_part else rows(value) if type(value) is dict else None
        return value if listed is None else self.open(listed)

    def key(self, key: Any) -> Any:
        """Return `key` if it is a valid key of a mapping."""
        key = self.read(key)
        if type(key) not in SCALARS:
            raise TemplateError(f"a {describe(key)} cannot be a key")
        return key

    # Sequences

    def iterate(self, value: Any) -> Any:
        """Return the sized iterable of a `for`."""
        return Items(self, self.items(value))

    def items(self, value: Any) -> list[Any] | tuple[Any, ...] | range:
        """Return the items of any sequence, mapping (its keys) or text, and count them."""
        value = self.read(self.as_list(self.read(value)))
        kind = type(value)
        if kind is list or kind is tuple or kind is range or kind is Group:
            self.tick(len(value) >> 4)
            return value  # type: ignore[no-any-return]  # narrowed by its `type`, which is faster than `isinstance`
        if isinstance(value, Undefined):
            self.count_empty(value)
            return ()
        if kind is dict or kind is str:
            if kind is str and not value.isascii():
                self.charge_pieces(len(value))
            else:
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

    def count_empty(self, value: Undefined) -> None:
        """Record that an undefined value is taken for empty data."""
        if self.scope.blanks is not None and not self.is_condition:
            self.blank = [*(self.blank or ()), value]

    def text(self, value: Any) -> str:
        """Return `value` as text (Jinja2's rules: `None`, `True`, and Python's notation of lists and mappings)."""
        kind = type(value)
        if kind is str:
            return value  # type: ignore[no-any-return]  # narrowed by its `type`, which is faster than `isinstance`
        if kind is int or kind is float or kind is bool or value is None:
            return str(value)
        if isinstance(value, Undefined):
            self.read(value)
            if self.scope.strict:
                raise UndefinedValue(value._undefined_message)
            if self.scope.blanks is not None:  # also in a condition: a text that lacks a part fails
                self.blank = [*(self.blank or ()), value]
            return ""
        value = self.plain(self.read(value))
        if type(value) is str:
            return value
        self.charge(self.weight * 2)
        return str(value)

    def plain(self, value: Any, *, undefined_ok: bool = True, keep_secrets: bool = False, keep_references: bool = False) -> Any:
        """Return `value` as JSON data: tuples as lists, keys as text, secrets opened, pointers and references resolved.

        `weight` is then its approximate number of characters as JSON.
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
                self.count_empty(value)
                return None
            raise UndefinedValue(value._undefined_message)
        if isinstance(value, Mapping) and kind is not Namespace:
            return {json_key(k): self._plain(v, undefined_ok, keep_secrets, keep_references) for k, v in value.items()}
        return self._refuse(value)

    def _refuse(self, value: Any) -> NoReturn:
        raise TemplateError(f"a {describe(value)} is not data")


class Items:
    """A counted iteration over a list for `for`: sized, so that `loop.length` is known."""

    __slots__ = ("reading", "values")

    def __init__(self, reading: Reading, values: list[Any] | tuple[Any, ...] | range) -> None:
        self.reading = reading
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return self.reading.each(self.values)
