"""The tests of templates: `x is defined`, `select('even')`, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import pass_context

from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.filters.registry import FILTERS, TESTS, is_undefined, test, test_of_truth
from noetl_core.expr.values import Group
from noetl_core.values.outlines import Part


@pass_context
def defined(ev: Evaluation, value: Any) -> bool:
    return not is_undefined(value)


@pass_context
def undefined(ev: Evaluation, value: Any) -> bool:
    return is_undefined(value)


TESTS.update(defined=defined, undefined=undefined)


def _is(*kinds: type) -> Callable[[Evaluation, Any], bool]:
    return lambda ev, value: (value.kind if isinstance(value, Part) else type(value)) in kinds


test("string", parts=True)(_is(str))
test("number", parts=True)(_is(int, float, bool))
test("integer", parts=True)(_is(int))
test("float", parts=True)(_is(float))
test("boolean", parts=True)(_is(bool))
test("mapping", parts=True)(lambda ev, value: isinstance(value, dict) or (isinstance(value, Part) and value.kind is dict))
test_of_truth("none")(lambda ev, value: value is None)
test_of_truth("true")(lambda ev, value: value is True)
test_of_truth("false")(lambda ev, value: value is False)
test("sequence", parts=True)(_is(str, list, tuple, Group, dict, range))
test("iterable", parts=True)(
    lambda ev, value: type(value) in (str, list, tuple, Group, dict, range) or is_undefined(value) or isinstance(value, Part)
)
test("callable")(lambda ev, value: False)
test("escaped")(lambda ev, value: False)
test("odd")(lambda ev, value: ev.call_binop(ev, "%", value, 2) == 1)
test("even")(lambda ev, value: ev.call_binop(ev, "%", value, 2) == 0)
test("divisibleby")(lambda ev, value, by: ev.call_binop(ev, "%", value, by) == 0)
test("lower")(lambda ev, value: ev.text(value).islower())
test("upper")(lambda ev, value: ev.text(value).isupper())
test("filter")(lambda ev, value: type(value) is str and value in FILTERS)
test("test")(lambda ev, value: type(value) is str and value in TESTS)
test("sameas")(lambda ev, value, other: value is other)


def _compared(operator: str) -> Callable[[Evaluation, Any, Any], bool]:
    return lambda ev, value, other: ev.compare(operator, value, other)


for _operator, _names in {
    "eq": ("==", "eq", "equalto"),
    "ne": ("!=", "ne"),
    "lt": ("<", "lt", "lessthan"),
    "lteq": ("<=", "le"),
    "gt": (">", "gt", "greaterthan"),
    "gteq": (">=", "ge"),
    "in": ("in",),
}.items():
    test(*_names)(_compared(_operator))
