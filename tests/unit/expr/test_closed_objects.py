"""Templates reach data and nothing behind it: no callable, no object, no module."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.expr import TemplateError, UndefinedValue
from tests.unit.expr.attacks import attempt


def test_stored_callables_are_not_called() -> None:
    called = []
    for use in (
        "{{ f() }}",
        "{{ f(1) }}",
        "{{ d.f() }}",
        "{{ l[0]() }}",
        "{{ [1] | map(f) | list }}",
        "{{ f }}",
        "{{ [f] }}",
        "a{{ f }}",
    ):
        try:
            result = attempt(use, f=lambda *a: called.append(a), d={"f": called.append}, l=[called.append])
        except TemplateError:
            continue
        assert "function" not in str(result)
    assert called == []


def test_functions_and_methods_are_not_values() -> None:
    for template in (
        "{{ range }}",
        "{{ [range] }}",
        "{{ 'a'.upper }}",
        "x{{ ''.join }}",
        "{{ {'a': dict} | tojson }}",
        "{{ namespace() }}",
    ):
        with pytest.raises(TemplateError, match="is not data"):
            attempt(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ rows.append(1) }}", "{{ rows.clear() }}", "{{ rows.pop() }}", "{{ rows.sort() }}", "{{ rows[0].update({'a': 9}) }}",
        "{{ rows[0].pop('a') }}", "{{ rows[0].setdefault('b', 1) }}", "{{ workload.clear() }}", "{% set rows[0].a = 9 %}",
        "{% set workload.n = 9 %}", "{{ rows.extend([1]) }}", "{{ rows.insert(0, 1) }}", "{{ rows.remove(1) }}", "{{ rows.reverse() }}",
        "{{ rows.__setitem__(0, 1) }}", "{{ rows.__iadd__([1]) }}",
    ],
)  # fmt: skip
def test_data_cannot_be_changed(template: str) -> None:
    names: dict[str, Any] = {"rows": [{"a": 1}], "workload": {"n": 5}}
    with pytest.raises(TemplateError):
        attempt(template, **names)
    assert names == {"rows": [{"a": 1}], "workload": {"n": 5}}


def test_objects_that_are_not_data_stay_closed() -> None:
    class Thing:
        password = "x"

        def run(self) -> str:
            return "ran"

    for template in (
        "{{ t.password }}",
        "{{ t.run() }}",
        "{{ t['password'] }}",
        "{{ t }}",
        "a{{ t }}",
        "{{ [t] | tojson }}",
        "{{ t | list }}",
    ):
        with pytest.raises(TemplateError):
            attempt(template, t=Thing())


def test_an_unknown_name_of_python_is_undefined() -> None:
    for name in (
        "open",
        "exec",
        "eval",
        "__import__",
        "__builtins__",
        "globals",
        "self",
        "context",
        "environment",
        "resolve",
        "missing",
    ):
        with pytest.raises(UndefinedValue):
            attempt(f"{{{{ {name} }}}}")
