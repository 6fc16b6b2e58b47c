"""One evaluation: compiled template code calls it for every name, attribute, operator, call and loop.

Compiled code receives an `Evaluation` both as its Jinja2 *context* and as its *environment*, so every operation of a template
passes through it: budgets are counted, references loaded on access, reads of secrets recorded, and only plain data is visible.
`reading` implements reads of values; this module adds names, operators and calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.utils import missing

from noetl_core.expr import methods, operators
from noetl_core.expr.errors import LimitExceeded, TemplateError, UndefinedValue
from noetl_core.expr.evaluation_limits import CALL_DEPTH, Limits, Missing, MissingName
from noetl_core.expr.reading import DEFAULT_LIMITS, Reading
from noetl_core.expr.scope import MISSING, Pointer, Scope
from noetl_core.expr.secret import Secret
from noetl_core.expr.strict import remedy_for
from noetl_core.expr.values import Function, Method, describe


class _EvalContext:
    """The part of Jinja2's evaluation context that compiled code reads. Nothing is escaped for HTML."""

    autoescape = False
    volatile = False


class Evaluation(Reading):
    """A `Reading` that compiled template code can run on."""

    __slots__ = ("calls", "exported_vars", "vars")

    vars: dict[str, Any]
    exported_vars: set[str]
    """Only compiled text templates write these; set when one is run."""

    autoescape: ClassVar[bool] = False
    is_async: ClassVar[bool] = False
    name: ClassVar[None] = None
    eval_ctx: ClassVar[_EvalContext] = _EvalContext()
    functions: ClassVar[Mapping[str, Function]] = {}
    """Global functions by name; filled by `functions.py`."""

    def __init__(self, scope: Scope, limits: Limits = DEFAULT_LIMITS) -> None:
        Reading.__init__(self, scope, limits)
        self.calls = 0

    # Names

    @property
    def undefined(self) -> Callable[..., Undefined]:
        """The constructor of undefined values, which compiled code calls."""
        return self._undefined_name if self.scope.strict else Missing

    def _undefined_name(self, hint: str | None = None, name: str | None = None) -> Undefined:
        missing = Missing(hint, name=name)
        return MissingName(f"{missing._undefined_message}{remedy_for(name, self.scope)}", name=name)

    def resolve_or_missing(self, name: str) -> Any:
        """Return the value of a name, or Jinja2's `missing` when there is none."""
        value = self.scope.lookup(name)
        if value is MISSING:
            return self.functions.get(name, missing)
        kind = type(value)
        return self.enter(value) if kind is Secret or kind is Pointer else value

    def beside_data(self, value: Any, name: str) -> Any:
        """Return a read-only method, if the data of `value` has no part of that name."""
        if type(value) is LoopContext and name in ("cycle", "changed"):
            return Method(name, value, getattr(methods, f"loop_{name}"))
        method = methods.find(value, name)
        return super().beside_data(value, name) if method is None else Method(name, value, method)

    # Operators

    compare = operators.compare

    def call_binop(self, context: Evaluation, operator: str, left: Any, right: Any) -> Any:
        """Apply an arithmetic operator."""
        self.tick()
        return operators.BINARY[operator](self, self.read(left), self.read(right))

    def call_unop(self, context: Evaluation, operator: str, value: Any) -> Any:
        """Apply a sign."""
        self.tick()
        value = self.read(value)
        if type(value) not in (int, float, bool) and not isinstance(value, Undefined):
            raise TemplateError(f"a {describe(value)} has no sign")
        return -value if operator == "-" else +value

    def join(self, parts: Iterable[Any]) -> str:
        """`a ~ b`."""
        return self.concat([self.text(part) for part in parts])

    def concat(self, parts: Iterable[str]) -> str:
        """Join pieces of output."""
        pieces = list(parts)
        self.tick(len(pieces) >> 3)
        self.charge_joined(sum(map(len, pieces)), *pieces)
        return "".join(pieces)

    # Making data

    def make_list(self, *items: Any) -> list[Any]:
        """`[a, b]`."""
        self.charge_items(len(items))
        return list(items)

    def make_tuple(self, *items: Any) -> tuple[Any, ...]:
        """`(a, b)`."""
        self.charge_items(len(items))
        return items

    def make_dict(self, *items: tuple[Any, Any]) -> dict[Any, Any]:
        """`{a: b}`."""
        self.charge_items(len(items) * 2)
        return {self.key(k): v for k, v in items}

    # Calling

    def call(self, context: Evaluation, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Carry out a call of the template: a function or method of ours, a macro, or a recursive loop."""
        self.tick()
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        kind = type(function)
        if "caller" in kwargs and kind is not Macro:
            raise TemplateError("{% call %} calls a macro of the template, nothing else")
        if kind is Function:
            return function.run(self, *args, **kwargs)
        if kind is Method:
            return function.run(self, function.value, *args, **kwargs)
        if kind is Macro or kind is LoopContext:
            if kind is LoopContext:
                args = tuple(self.iterate(a) for a in args)
            if self.calls >= CALL_DEPTH:
                raise LimitExceeded(f"macros and recursive loops nest deeper than {CALL_DEPTH}")
            self.calls += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.calls -= 1
        if isinstance(function, Undefined):
            raise UndefinedValue(f"{function._undefined_message}, so it cannot be called")
        raise TemplateError(f"a {describe(function)} cannot be called")
