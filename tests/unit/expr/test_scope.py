"""Resolution of names, and lazy reads of results (resolutions 14, 22; bare step names)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from noetl_core.expr import Pointer, Scope, TemplateError, is_reference, render, truthy

REF = {"kind": "result_ref", "store": "s3", "key": "e/1", "size": 9000}
VALUE = {"rows": [{"id": 1}, {"id": 2}], "kind": "table", "items": ["x"]}


class Results:
    """A resolver that counts."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.asked: list[Any] = []

    def __call__(self, wanted: Any) -> Any:
        self.asked.append(wanted)
        return self.values["ref" if isinstance(wanted, dict) else wanted.at]


def test_a_bare_name_reads_args_then_ctx_then_iter_then_workload() -> None:
    layers: dict[str, Any] = {
        "workload": {"a": "workload", "b": "workload", "c": "workload", "d": "workload"},
        "iter": {"a": "iter", "b": "iter", "c": "iter"},
        "ctx": {"a": "ctx", "b": "ctx"},
        "args": {"a": "args"},
    }
    assert render("{{ a }} {{ b }} {{ c }} {{ d }}", Scope(layers)) == "args ctx iter workload"


def test_named_namespaces_and_task_names_come_before_bare_names() -> None:
    scope = Scope({"fetch": {"data": 1}}, {"workload": {"fetch": 2, "workload": 3, "ctx": 4}, "ctx": {"fetch": 5}})
    assert render("{{ fetch.data }}", scope) == 1
    assert render("{{ ctx.fetch }}", scope) == 5
    assert render("{{ workload.ctx }}", scope) == 4


def test_layers_stack_without_copying() -> None:
    base = {"ctx": {"n": 1}}
    scope = Scope(base)
    inner = scope.over({"outcome": {"status": "ok"}})
    base["ctx"] = {"n": 2}
    assert render("{{ ctx.n }} {{ n }} {{ outcome.status }}", inner) == "2 2 ok"
    assert not truthy("{{ outcome }}", scope)


def test_a_scope_is_a_mapping() -> None:
    scope = Scope({"ctx": {"a": 1}, "steps": {"s": {"status": "ok", "result": 5}}})
    assert dict(scope) == {"ctx": {"a": 1}, "steps": {"s": {"status": "ok", "result": 5}}, "a": 1, "s": 5}
    assert "a" in scope and "zz" not in scope
    with pytest.raises(KeyError):
        scope["zz"]


def test_a_bare_step_name_reads_its_result_last() -> None:
    resolve = Results({"r1": VALUE})
    scope = Scope({"steps": {"fetch": {"status": "ok", "result": Pointer("r1")}}, "ctx": {}}, resolve=resolve)
    assert render("{{ fetch.rows[1].id }}", scope) == 2
    assert render("{{ fetch }}", scope) == VALUE
    assert render("{{ fetch }}", scope.over({"ctx": {"fetch": "mine"}})) == "mine"


def test_a_pointer_is_resolved_only_when_read() -> None:
    resolve = Results({"r1": VALUE, "r2": REF, "ref": VALUE})
    scope = Scope(
        {"steps": {"a": {"status": "ok", "result": Pointer("r1")}, "b": {"status": "error", "result": Pointer("r2")}}},
        resolve=resolve,
    )
    assert render("{{ steps.a.status }}{{ steps.b.status }}", scope) == "okerror"
    assert resolve.asked == []
    assert render("{{ steps.a.result }}", scope) == VALUE
    assert resolve.asked == [Pointer("r1")]
    assert render("{{ steps.b.result }}", scope) == REF
    assert resolve.asked == [Pointer("r1"), Pointer("r2")]
    assert render("{{ steps.b.result.rows | length }}", scope) == 2
    assert render("{{ steps }}", scope)["a"] == {"status": "ok", "result": VALUE}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ ref.rows[0].id }}", 1),
        ("{{ ref['rows'] | length }}", 2),
        ("{{ ref.kind }}", "table"),
        ("{{ ref.items }}", ["x"]),
        ("{{ ref | length }}", 3),
        ("{{ 'rows' in ref }}", True),
        ("{{ ref | tojson | fromjson == value }}", True),
        ("{{ ref == value }}", True),
        ("{{ ref is mapping }}", True),
        ("{{ 'yes' if ref else 'no' }}", "yes"),
        ("{{ ref | list }}", ["rows", "kind", "items"]),
        ("{% for key in ref %}{{ key }}{% endfor %}", "rowskinditems"),
        ("{{ (ref.rows | first).id }}", 1),
        ("{{ [ref] | map(attribute='rows') | first | sum(attribute='id') }}", 3),
        ("{{ ref.get('rows')[1].id }}", 2),
        ("{{ dict(ref).kind }}", "table"),
        ("{{ '%s' % ref.kind }}{{ '{0.kind}'.format(ref) }}", "tabletable"),
    ],
)  # fmt: skip
def test_a_reference_reads_like_its_value(template: str, value: Any) -> None:
    assert render(template, Scope({"ref": REF, "value": VALUE}, resolve=Results({"ref": VALUE}))) == value


def test_a_list_behind_a_reference() -> None:
    scope = Scope({"ref": REF}, resolve=Results({"ref": [3, 1, 2]}))
    assert render("{{ ref[0] }}{{ ref[1:] }}{{ ref | sort }}{{ ref + [4] }}{{ ref | sum }}{{ 3 in ref }}", scope) == (
        "3[1, 2][1, 2, 3][3, 1, 2, 4]6True"
    )


@pytest.mark.parametrize(
    "template",
    [
        "{{ ref }}",
        "{{ outcome.result }}",
        "{{ missing | default(ref) }}",
        "{{ ref | default([]) }}",
        "{{ ref if true else 1 }}",
        "{{ ref or 1 }}",
    ],
)
def test_passing_a_reference_whole_passes_the_reference(template: str) -> None:
    resolve = Results({"ref": VALUE})
    assert render(template, Scope({"ref": REF, "outcome": {"result": REF}}, resolve=resolve)) == REF
    assert resolve.asked == []


def test_a_reference_inside_a_made_structure_stays_one() -> None:
    resolve = Results({"ref": VALUE})
    assert render("{{ {'a': [ref, 1]} }}", Scope({"ref": REF}, resolve=resolve)) == {"a": [REF, 1]}
    assert render({"x": "{{ ref }}", "y": "{{ [ref] | first }}"}, Scope({"ref": REF}, resolve=resolve)) == {"x": REF, "y": REF}
    assert resolve.asked == []


def test_a_reference_in_text_is_its_value() -> None:
    assert render("v={{ ref }}", Scope({"ref": REF}, resolve=Results({"ref": 5}))) == "v=5"


class NeedValues(ValueError):
    """As the control plane raises, of a class that templates themselves catch elsewhere."""


@pytest.mark.parametrize(
    "error", [NeedValues("later"), KeyError("k"), TypeError("t"), TemplateError("mine"), TimeoutError(), RecursionError()]
)
@pytest.mark.parametrize(
    "template",
    [
        "{{ ref.rows }}", "{{ ref | int }}", "{{ ref | tojson }}", "{{ [1, ref] | sort }}", "{{ '%s' % ref }}", "{{ '{}'.format(ref) }}",
        "{{ ref == 1 }}", "a{{ ref }}", "{{ ref | regex_search('a') }}", "{{ [ref] | unique }}", "{% for x in ref %}{% endfor %}",
        "{{ ref | float(1) }}", "{{ [ref] | max }}", "{{ ref | b64decode }}", "{{ ref | to_epoch }}", "{{ p.x }}", "{{ s }}",
    ],
)  # fmt: skip
def test_an_error_of_resolve_passes_through_unchanged(template: str, error: Exception) -> None:
    def resolve(wanted: Any) -> Any:
        raise error

    scope = Scope({"ref": REF, "p": Pointer("x"), "steps": {"s": {"result": Pointer("y")}}}, resolve=resolve)
    with pytest.raises(type(error)) as caught:
        render(template, scope)
    assert caught.value is error


def test_without_a_resolver_a_reference_cannot_be_read_into() -> None:
    assert render("{{ ref }}", Scope({"ref": REF})) == REF
    with pytest.raises(TemplateError, match="stored outside the log"):
        render("{{ ref.rows }}", Scope({"ref": REF}))


def test_only_mappings_of_kind_result_ref_with_a_text_key_are_references() -> None:
    assert is_reference(REF)
    assert not is_reference({"kind": "table"})
    assert not is_reference("result_ref")
    assert not is_reference({"kind": "result_ref", "key": 5, "store": "s3"})
    assert render("{{ x.key }}", Scope({"x": {"kind": "result_ref", "key": 5}})) == 5


def test_mappings_of_the_shell_are_read_lazily() -> None:
    class Credentials(Mapping[str, Any]):
        asked: list[str] = []  # noqa: RUF012

        def __getitem__(self, name: str) -> Any:
            self.asked.append(name)
            return {"token": f"t-{name}"}

        def __iter__(self) -> Any:
            return iter(["a", "b"])

        def __len__(self) -> int:
            return 2

    scope = Scope({"keychain": Credentials()})
    assert render("{{ keychain.a.token }}", scope) == "t-a"
    assert Credentials.asked == ["a"]
    assert render("{{ keychain | list }}", scope) == ["a", "b"]


@pytest.mark.parametrize(("stored", "size"), [([], 2), ({}, 2), ("", 2), (0, 1), (False, 5), (None, 4)])
def test_a_reference_to_an_empty_value_is_false(stored: Any, size: int) -> None:
    ref = {"kind": "result_ref", "store": "s3", "key": "1/empty", "size": size}
    scope = Scope({"x": ref, "y": {**ref, "size": 9_000}}, resolve=lambda r: stored if r is ref else [1])
    template = "{{ [not x, x or 'none', (x and 1) == x, 'full' if x else 'empty', not y, 'full' if y else 'empty'] }}"
    assert render(template, scope) == [True, "none", True, "empty", False, "full"]
    assert render("{% if x %}full{% elif y %}then{% endif %}", scope) == "then"


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ ref is none }}", False),
        ("{{ ref is not none and ref is defined }}", True),
        ("{{ pointer is none or pointer is true or pointer is false }}", False),
        ("{{ [none, ref, 1] | reject('none') | list | length }}", 2),
        ("{{ [none, ref] | select('none') | list }}", [None]),
        ("{{ [{'a': ref}, {'a': none}] | rejectattr('a', 'none') | list | length }}", 1),
        ("{{ [none, ref] | select | list }}", [REF]),
        ("{{ [ref] | reject('true') | list }}", [REF]),
    ],
)
def test_a_null_test_does_not_load_a_reference(template: str, value: Any) -> None:
    def resolve(wanted: Any) -> Any:
        assert isinstance(wanted, Pointer)
        return REF

    assert render(template, Scope({"ref": REF, "pointer": Pointer("r")}, resolve=resolve)) == value


@pytest.mark.parametrize(("stored", "size", "name"), [(None, 4, "none"), (True, 4, "true"), (False, 5, "false")])
def test_a_reference_to_null_true_or_false_passes_the_test_for_it(stored: Any, size: int, name: str) -> None:
    scope = Scope({"x": {"kind": "result_ref", "store": "s3", "key": "1/small", "size": size}}, resolve=lambda _: stored)
    assert render(f"{{{{ [x is {name}, [x] | select('{name}') | list | length] }}}}", scope) == [True, 1]
