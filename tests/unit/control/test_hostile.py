"""Every route of the OpenAPI document under hostile requests: the statuses it documents, and never a 500."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from noetl_core import wiring
from noetl_core.adapters.aws.secrets import SecretsManager
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.api import MAX_BODY, Api, Call, Route, Service, dispatch, routes
from noetl_core.control.api.dispatch import MODULES, _patterns
from noetl_core.control.api.openapi import document, refusals
from noetl_core.local import LocalWiring
from tests.contract.aws import environment, make_bucket, make_queue, make_table

HELLO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello, path: test/hello }
workflow:
  - step: start
    tool: { kind: noop }
"""
PATHS = [
    "..",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "x" * 5000,
    "%00",
    "m%231",
    "1",
    "9" * 19,
    "9" * 40,
    "-1",
    "%F0%9F%92%A9",
    "'; --",
    "١٢٣",
]
QUERIES = [
    "",
    "x",
    "-1",
    "0",
    "1.5",
    "9" * 30,
    "9" * 5000,
    "\x00",
    "💩",
    "../..",
    "c",
    "cAAAA",
    "1.control.0.0",
    "\ud800",
    "٣",
    "2026-13-40",
    "9999-12-31",
]
VALUES: list[Any] = [None, True, 7, -1, 2**70, "", "x", "\x00", "x" * 5000, [], [1], {}, {"a": {"b": None}}, {"💩": 1}]
BODIES = [
    "",
    "{",
    "null",
    "[]",
    '"x"',
    "[" * 100_000,
    '{"a": ' * 500 + "1" + "}" * 500,
    '{"a": NaN}',
    '{"payload": {"n": 1e999}, "path": "x"}',
    '{"payload": {"s": "\\ud800"}, "path": "test/hello"}',
    '{"payload": {"n": ' + "9" * 5000 + '}, "path": "x"}',
    '{"__proto__": 1}',
    "\x00",
    "a: &a [*a]",
    "&a [" + "*a," * 50 + "]",
    "!!python/object/apply:os.system [ls]",
    "#" * (MAX_BODY + 1),
]


@pytest.fixture(scope="module", params=["local", "aws"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    if request.param == "local":
        local = LocalWiring()
        secrets = LocalSecrets(tmp_path_factory.mktemp("secrets") / "credentials.json")
        yield Service(lambda: local.control, lambda: b"key", secrets=lambda: secrets)
        local.close()
        return
    with mock_aws(), environment():
        named = {
            "EVENTS_TABLE": make_table("EventsTable"),
            "CATALOG_TABLE": make_table("CatalogTable"),
            "RESULTS_BUCKET": make_bucket(),
            "COMMAND_QUEUES": json.dumps({"default": make_queue("CommandQueue")}),
            "CONTROL_QUEUE_URL": make_queue("ControlQueue"),
        }
        with environment(**named):
            for made in (wiring.results, wiring.control):
                made.cache_clear()
            yield Service(wiring.control, lambda: b"key", secrets=lambda: SecretsManager("noetl/"))
            for made in (wiring.results, wiring.control):
                made.cache_clear()


@pytest.fixture(scope="module")
def execution(service: Service) -> str:
    """One that exists, so that requests get past its lookup."""
    answer = dispatch(Call(service, "POST", "/api/executions", body=json.dumps({"playbook": HELLO})))
    assert answer.status == 202, answer.body
    return str(answer.body["execution_id"])


def paths(route: Route, execution: str) -> Iterator[str]:
    """The route's path, made of what exists, then of what is hostile."""
    names = re.findall(r"\{\w+\+?\}", route.path)
    fits = {"{execution_id}": execution, "{path+}": "test/hello"}
    for value in [None, *PATHS] if names else [None]:
        path = route.path
        for name in names:
            path = path.replace(name, fits.get(name, "x") if value is None else value)
        yield path


def well_formed(route: Route, execution: str) -> dict[str, Any]:
    fits: dict[str, Any] = {"execution_id": execution, "path": "test/hello", "playbook": HELLO, "version": 1}
    return {n: fits.get(n, {} if f.kind is dict else "x") for n, f in (route.body or {}).items() if f.required}


@pytest.mark.parametrize("route", routes(), ids=lambda r: f"{r.method} {r.path}")
def test_hostile_requests_are_refused_as_documented(service: Service, execution: str, route: Route) -> None:
    calls = [Call(service, route.method, path) for path in paths(route, execution)]
    path = next(paths(route, execution))
    calls += [Call(service, route.method, path, {n: v}) for n in route.query for v in QUERIES]
    calls.append(Call(service, route.method, path, {"surprise": "1"}))
    if route.method == "POST":
        calls += [Call(service, route.method, path, body=body) for body in BODIES]
        calls += [Call(service, route.method, path, body=b64encode(b"\xff\xfe").decode(), base64=True)]
        calls += [Call(service, route.method, path, body="!", base64=True)]
        for name in route.body or ():
            for value in VALUES:
                calls.append(Call(service, route.method, path, body=json.dumps({**well_formed(route, execution), name: value})))
    allowed = {int(route.status), *refusals(route)}
    for call in calls:
        answer = dispatch(call)
        said = f"{call.method} {call.path[:80]!r} {dict(call.query)!r:.80} {call.body[:80]!r} -> {answer.status} {answer.body!r:.300}"
        assert int(answer.status) in allowed, said
        if answer.status >= 400 and "error" in answer.body:
            assert set(answer.body["error"]) == {"code", "message", "details", "request_id"}, said


def test_every_documented_route_is_there_and_says_what_it_refuses(service: Service) -> None:
    documented = {(method.upper(), path) for path, methods in document(routes())["paths"].items() for method in methods}
    assert documented == {(r.method, r.path.replace("+}", "}")) for r in routes()}
    for methods in document(routes())["paths"].values():
        for operation in methods.values():
            assert {"400", "403", "503"} <= set(operation["responses"])


def test_a_method_nobody_has_is_not_found(service: Service) -> None:
    api = Api(service)
    event = {"httpMethod": "PATCH", "path": "/api/executions", "headers": None, "body": None}
    assert api.resolve(event, None)["statusCode"] == 404


def test_no_path_fits_routes_of_two_modules(service: Service, execution: str) -> None:
    for route in routes():
        path = next(paths(route, execution))
        fits = {m for m in MODULES for pattern, r in _patterns(m) if r.method == route.method and pattern.fullmatch(path)}
        assert len(fits) == 1, f"{route.method} {path}"
