"""Request classes: their arguments, fields and routes, and what carries them out."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from noetl_core.api.app import routes
from noetl_core.api.fields import specs
from noetl_core.api.request import Request
from noetl_core.api.requests import REQUESTS, Api, GetDocs, GetDocument
from noetl_core.api.requests.executions import GetState, ListExecutions, StartExecution
from noetl_core.api.requests.operating import OperateBatch
from noetl_core.control.catalog.versions import Deleted
from noetl_core.control.refusals import TABLE, code_of
from noetl_core.ports import StorageFailed
from noetl_core.service.operations.base import load

Kind = type[Request[Any]]


def test_fields_are_passed_by_position_or_name_and_have_defaults() -> None:
    request = GetState("7", at="7.control.0.0")
    assert (request.execution_id, request.at) == ("7", "7.control.0.0")
    assert GetState("7").at is None


@pytest.mark.parametrize(
    ("args", "named"), [((), {}), (("7", "a", "b"), {}), (("7",), {"execution_id": "8"}), (("7",), {"when": "now"})]
)
def test_wrong_arguments_are_errors_as_of_any_function(args: tuple[str, ...], named: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="GetState"):
        GetState(*args, **named)


def test_fields_behind_the_mark_are_passed_by_name_only() -> None:
    with pytest.raises(TypeError, match="0 positional"):
        ListExecutions("completed")  # type: ignore[call-arg]  # the tested mistake


def test_methods_have_the_arguments_of_their_requests() -> None:
    class Sent(Api):
        def call(self, request: Any) -> Any:
            return request

    started: Any = Sent().start(path="p", payload={"a": 1})
    assert isinstance(started, StartExecution) and (started.path, started.payload) == ("p", {"a": 1})
    batch: Any = Sent().batch("pause", path="p", begin="s")
    assert isinstance(batch, OperateBatch) and batch.arguments is not None
    assert (batch.filter["path"], batch.arguments["from"]) == ("p", "s")


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_no_field_hides_an_attribute_of_request(kind: Kind) -> None:
    assert {spec.attribute for spec in specs(kind)} & {name for name in vars(Request) if not name.startswith("__")} == set()


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_operation_is_carried_out_and_described(kind: Kind) -> None:
    if kind not in (GetDocument, GetDocs):
        load(kind)
        module = kind.__module__.rpartition(".")[2]
        assert hasattr(kind, "handler"), f"add a function with @{kind.__name__}.answered to service/operations/{module}.py"
    assert kind.__doc__, f"give {kind.__name__} a docstring: it is the summary in the document"
    undescribed = [spec.attribute for spec in specs(kind) if not spec.field.about]
    assert undescribed == [], f"describe these fields of {kind.__name__} (Annotated)"


def test_literal_paths_are_tried_before_those_with_parts() -> None:
    def answers(method: str, path: str) -> str:
        fits = (r for r in routes() if r.kind.http.method == method and r.pattern.fullmatch(path))
        return next(fits).kind.__name__

    assert answers("GET", "/api/executions/stats") == "GetStats"
    assert answers("GET", "/api/executions/7") == "GetExecution"
    assert answers("POST", "/api/executions/batch") == "OperateBatch"
    assert answers("GET", "/api/playbooks/a/b") == "GetPlaybook"
    assert answers("GET", "/api/playbooks/a/b/about") == "AboutPlaybook"
    assert answers("GET", "/api/triggers/a/b/hourly") == "GetTrigger"


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_refusals_names_exceptions_where_they_are(name: str) -> None:
    module, _, kind = name.rpartition(".")
    found = getattr(import_module(module), kind)
    assert issubclass(found, Exception) and f"{found.__module__}.{found.__qualname__}" == name


def test_a_derived_exception_is_refused_as_its_nearest_ancestor_in_the_table() -> None:
    assert code_of(Deleted("gone")) == "deleted"
    assert code_of(StorageFailed("full")) == "unavailable"
    assert code_of(RuntimeError("a bug")) == "internal"
