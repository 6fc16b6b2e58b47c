"""Declares filters and tests: plain functions of the evaluation and the value, registered by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from jinja2 import pass_context
from jinja2.runtime import Undefined

from noetl_core.expr.evaluation import Evaluation

Run = Callable[..., Any]
F = TypeVar("F", bound=Run)

FILTERS: Final[dict[str, Run]] = {}
TESTS: Final[dict[str, Run]] = {}


def _reading(run: Run, *, parts: bool = False) -> Run:
    """Return `run` with the references in its value and arguments loaded, and with every call counted. With `parts` the value
    may be a `Part`."""

    @pass_context
    def reading(ev: Evaluation, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        ev.tick()
        if args:
            args = tuple(ev.read(a) for a in args)
        if kwargs:
            kwargs = {k: ev.read(v) for k, v in kwargs.items()}
        return run(ev, ev.open(value) if parts else ev.read(value), *args, **kwargs)

    return reading


def filter_(*names: str, parts: bool = False) -> Callable[[F], F]:
    """Declare a filter that reads the content of its value: references are loaded first. With `parts` it gets a large value as a
    `Part`."""

    def declare(run: F) -> F:
        for name in names:
            FILTERS[name] = _reading(run, parts=parts)
        return run

    return declare


def text_filter(*names: str) -> Callable[[F], F]:
    """Declare a filter on text: the value is converted to text first (undefined becomes empty text)."""

    def declare(run: F) -> F:
        def on_text(ev: Evaluation, value: Any, /, *args: Any, **kwargs: Any) -> Any:
            text = value if type(value) is str else ev.text(value)
            ev.tick(len(text) >> 8)
            return run(ev, text, *args, **kwargs)

        for name in names:
            FILTERS[name] = _reading(on_text)
        return run

    return declare


def raw_filter(*names: str) -> Callable[[F], F]:
    """Declare a filter that may pass on its value without reading it: references stay references."""

    def declare(run: F) -> F:
        for name in names:
            FILTERS[name] = pass_context(run)
        return run

    return declare


def test(*names: str, parts: bool = False) -> Callable[[F], F]:
    """Declare a test that reads the content of its value; with `parts` it gets a large value as a `Part`."""

    def declare(run: F) -> F:
        for name in names:
            TESTS[name] = _reading(run, parts=parts)
        return run

    return declare


def test_of_truth(*names: str) -> Callable[[F], F]:
    """Declare a test of whether its value is null, true or false, for which no large value is loaded."""

    def declare(run: F) -> F:
        @pass_context
        def judging(ev: Evaluation, value: Any, /) -> Any:
            ev.tick()
            return run(ev, ev.judged(value))

        for name in names:
            TESTS[name] = judging
        return run

    return declare


def is_undefined(value: Any) -> bool:
    return isinstance(value, Undefined)
