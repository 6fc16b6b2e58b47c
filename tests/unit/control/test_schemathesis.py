"""Requests made of the OpenAPI document, well formed and not: no 5xx, no answer that it does not promise, no body that differs from
its schema."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.api.app import Api
from noetl_core.api.document import document
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from tests.api_requests import routes
from tests.api_server import wsgi
from tests.properties import some
from tests.waiting import run_until_it_waits

Case = schemathesis.Case
EXAMPLES = 3
"""Examples of each operation and mode. The hostile requests of `test_hostile` are more, and fixed."""
MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
CREDENTIAL = "team/pg.main"
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: asked, path: test/asked }
workflow:
  - step: start
    loop: { in: [1, 2], iterator: n }
    tool: { kind: noop, message: hello, result: "{{ iter.n }}" }
    next: { arcs: [{ step: ask }] }
  - step: ask
    tool: { kind: callback, description: Ship it? }
"""


@pytest.fixture(scope="module")
def local() -> Iterator[LocalWiring]:
    wiring = LocalWiring()
    yield wiring
    wiring.close()


@pytest.fixture(scope="module")
def api(local: LocalWiring, tmp_path_factory: pytest.TempPathFactory) -> Api:
    secrets = LocalSecrets(tmp_path_factory.mktemp("secrets") / "credentials.json")
    return Api(Service(lambda: local.control, cursor_key(lambda: local.control), secrets=lambda: secrets))


@pytest.fixture(scope="module")
def there(api: Api, local: LocalWiring) -> dict[str, str]:
    """Parts of paths that name something: an execution that waits, a playbook, a credential."""
    assert isinstance(api.service, Service)
    operations = api.service.operations
    started = operations.start(playbook=PLAYBOOK)["execution_id"]
    run_until_it_waits(local, started)
    operations.put_credential(CREDENTIAL, {"user": "u"}, type="postgres")
    return {"execution_id": started, "path": "test/asked", "name": CREDENTIAL}


@pytest.fixture(scope="module")
def schema(api: Api) -> Any:
    """The document as schemathesis reads it, which takes longer than the requests for one operation."""
    read = schemathesis.openapi.from_dict(copy.deepcopy(document()))
    read.app = wsgi(api)
    return read


def generated(schema: Any, method: str, path: str, check: Callable[[Case[Any]], object]) -> int:
    """Pass generated requests for the operation, valid and invalid ones, to `check`. Return their number."""
    made = 0
    for mode in MODES:

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(schema[path][method].as_strategy(generation_mode=mode))
        def run(case: Case[Any]) -> None:
            nonlocal made
            made += 1
            check(case)

        with suppress(Unsatisfiable):  # an operation that takes nothing cannot be asked wrongly
            run()
    return made


@pytest.mark.one_in(4)
@pytest.mark.sized  # the suite takes every second route, and `test_hostile` the others
@pytest.mark.parametrize("route", some(routes(), 2), ids=lambda r: f"{r.method} {r.path}")
def test_every_answer_is_one_that_the_document_promises(schema: Any, there: dict[str, str], route: Any) -> None:
    def check(case: Case[Any]) -> None:
        case.call_and_validate(checks=CHECKS)
        known = {name: there[name] for name in case.path_parameters or () if name in there}
        if known:
            case.path_parameters = {**(case.path_parameters or {}), **known}
            case.call_and_validate(checks=CHECKS)

    assert generated(schema, route.method, route.path.replace("+}", "}"), check) > 0


def test_an_answer_that_differs_from_its_schema_is_found(api: Api) -> None:
    wrong = copy.deepcopy(document())
    wrong["components"]["schemas"]["Health"]["required"].append("uptime")
    schema = schemathesis.openapi.from_dict(wrong)
    schema.app = wsgi(api)
    with pytest.raises(FailureGroup, match="uptime"):
        generated(schema, "GET", "/api/health", lambda case: case.call_and_validate(checks=CHECKS))


def test_a_status_of_which_the_document_says_nothing_is_found(api: Api) -> None:
    wrong = copy.deepcopy(document())
    del wrong["paths"]["/api/executions/{execution_id}"]["get"]["responses"]["404"]
    schema = schemathesis.openapi.from_dict(wrong)
    schema.app = wsgi(api)
    with pytest.raises(FailureGroup, match="Undocumented"):
        generated(schema, "GET", "/api/executions/{execution_id}", lambda case: case.call_and_validate(checks=CHECKS))
