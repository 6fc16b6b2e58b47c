"""The budgets of an evaluation, in one place, against hostile and runaway templates (docs/language/expressions.md).

Operations make the result deterministic: the same template over the same data stops at the same place everywhere. The time
budget is the last resort. It counts the processor time of the thread, so that loading a reference does not count.
"""

from __future__ import annotations

from typing import Final

from jinja2.runtime import Undefined
from jinja2.utils import missing

from noetl_core.expr.errors import NoSuchName, UndefinedValue
from noetl_core.expr.values import describe
from noetl_core.values.frozen import frozen

SOURCE_CHARS: Final = 200_000
"""Longest template text."""

SOURCE_NODES: Final = 20_000
"""Most syntax nodes in one template."""

SOURCE_DEPTH: Final = 64
"""Deepest nesting of syntax nodes."""

INTEGER_BITS: Final = 4096
"""Largest integer result of arithmetic, below the size that Python refuses to print."""

FIELD_WIDTH: Final = 10_000
"""Largest width or precision of a formatted field, and of the filters that pad."""

ITEM_SIZE: Final = 16
"""The size of one list item in `Limits.size`."""

PIECE_SIZE: Final = 64
"""The bytes that Python needs for one text in a list, besides its characters."""

RANGE_ITEMS: Final = 1_000_000
"""Longest `range`, the same as for the collection of a loop. Iterating counts operations; a list of it counts size."""

CALL_DEPTH: Final = 30
"""Deepest nesting of macro calls and recursive loops."""

DATA_DEPTH: Final = 200
"""Deepest nesting of data that is traversed (printed, compared, serialised)."""

CHECK_EVERY: Final = 1024
"""Operations between two checks of the clock."""


@frozen
class Limits:
    """The budgets of one `render`: operations, produced characters and items (x 16), processor time."""

    ops: int = 2_000_000
    size: int = 32_000_000
    seconds: float = 0.5


class Missing(Undefined):
    """An undefined value, whose attributes are also undefined (resolution 15). It is falsy; every order comparison with it is
    false.

    Arithmetic with it and calling it raise `UndefinedValue`.
    """

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint or self._undefined_obj is missing:
            return super()._undefined_message
        return f"{self._undefined_name!r} is undefined: there is no such part of the {describe(self._undefined_obj)}"

    def _fail_with_undefined_error(self, *args: object, **kwargs: object) -> UndefinedValue:  # type: ignore[override]  # Jinja2 says `Never`
        raise UndefinedValue(self._undefined_message)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _fail_with_undefined_error  # type: ignore[assignment]  # see above
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _fail_with_undefined_error  # type: ignore[assignment]  # see above
    __mod__ = __rmod__ = __pow__ = __rpow__ = __pos__ = __neg__ = _fail_with_undefined_error  # type: ignore[assignment]  # see above
    __int__ = __float__ = __complex__ = __call__ = _fail_with_undefined_error  # type: ignore[assignment]  # see above

    def __lt__(self, other: object) -> bool:  # type: ignore[override]  # Jinja2's fails
        return False

    __le__ = __gt__ = __ge__ = __lt__  # type: ignore[assignment]  # see above

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undefined)

    def __hash__(self) -> int:
        return hash(Missing)

    def __getattr__(self, name: str) -> Missing:
        if name[:2] == "__":
            raise AttributeError(name)
        return self

    def __getitem__(self, name: object) -> Missing:  # type: ignore[override]  # Jinja2's fails
        return self

    def __contains__(self, item: object) -> bool:
        return False


class MissingEntry(Missing):
    """A name that a `Strict` mapping lacks: undefined under `default` and the like, otherwise an error."""

    __slots__ = ()

    def failure(self) -> UndefinedValue:
        """Return the error of a template that uses it."""
        return NoSuchName(self._undefined_message)

    def _fail_with_undefined_error(self, *args: object, **kwargs: object) -> UndefinedValue:  # type: ignore[override]  # Jinja2 says `Never`
        raise self.failure()


class MissingName(MissingEntry):
    """A name that is undefined in a strict execution. It has no truth either."""

    __slots__ = ()

    def failure(self) -> UndefinedValue:
        return UndefinedValue(self._undefined_message)
