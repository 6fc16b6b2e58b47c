"""Every route of the OpenAPI document under hostile requests: the statuses it documents, and never a 500."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.secrets import SecretsManager
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.api.app import Api
from noetl_core.api.document import document
from noetl_core.api.reading import MAX_BODY
from noetl_core.api.request import Http
from noetl_core.runtime import control_wiring
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.values.request_bounds import MAX_OFFSET, MAX_PAGE
from tests.api_requests import ask, routes
from tests.contract.aws import environment, make_bucket, make_queue, make_table
from tests.fast_moto import mock_aws
from tests.properties import some

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
    str(MAX_PAGE + 1),
    str(MAX_OFFSET + 1),
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
            "INLINE_STARTERS": "*",
            "COMMAND_QUEUES": json.dumps({"default": make_queue("CommandQueue")}),
            "CONTROL_QUEUE_URL": make_queue("ControlQueue"),
        }
        with environment(**named):
            for made in (control_wiring.results, control_wiring.control):
                made.cache_clear()
            yield Service(control_wiring.control, lambda: b"key", secrets=lambda: SecretsManager("noetl/"))
            for made in (control_wiring.results, control_wiring.control):
                made.cache_clear()


@pytest.fixture(scope="module")
def execution(service: Service) -> str:
    """One that exists, so that requests get past its lookup."""
    answer = ask(service, "POST", "/api/executions", body=json.dumps({"playbook": HELLO}))
    assert answer.status == 202, answer.body
    return str(json.loads(answer.text())["execution_id"])


def paths(route: Http, execution: str) -> Iterator[str]:
    """The route's path, made of what exists, then of what is hostile."""
    names = re.findall(r"\{\w+\+?\}", route.path)
    fits = {"{execution_id}": execution, "{path+}": "test/hello"}
    for value in [None, *PATHS] if names else [None]:
        path = route.path
        for name in names:
            path = path.replace(name, fits.get(name, "x") if value is None else value)
        yield path


def described(route: Http) -> dict[str, Any]:
    """Return the document's description of a route."""
    found: dict[str, Any] = document()["paths"][route.path.replace("+}", "}")][route.method.lower()]
    return found


def body_of(route: Http) -> dict[str, Any]:
    """The schema of the JSON body that a route takes."""
    schema = described(route).get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    found: dict[str, Any] = document()["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
    return found


def well_formed(route: Http, execution: str) -> dict[str, Any]:
    fits: dict[str, Any] = {"execution_id": execution, "path": "test/hello", "playbook": HELLO, "version": 1}
    schema = body_of(route)
    required = {n: {} if schema["properties"][n].get("type") == "object" else "x" for n in schema.get("required", ())}
    return {n: fits.get(n, value) for n, value in required.items()}


@pytest.mark.one_in(10)
@pytest.mark.sized
@pytest.mark.parametrize(
    ("service", "route"),
    [*(("local", route) for route in some(routes(), 2, 1)), *(("aws", route) for route in some(routes(), 12))],
    indirect=["service"],
    ids=lambda value: value if isinstance(value, str) else f"{value.method} {value.path}",
)
def test_hostile_requests_are_refused_as_documented(service: Service, execution: str, route: Http) -> None:
    def says(path: str, query: dict[str, str] | None = None, body: str = "", **more: Any) -> None:
        answer = ask(service, route.method, path, query, body=body, **more)  # held against the document
        exchange = f"{route.method} {path[:80]!r} {query!r:.80} {body[:80]!r} -> {answer.status} {answer.sent:.300}"
        assert answer.status < 500 or answer.status == 503, exchange
        if answer.status >= 400 and answer.content_type == "application/json" and "error" in answer.body:
            assert set(json.loads(answer.text())["error"]) == {"code", "message", "details", "request_id"}, exchange

    for each in paths(route, execution):
        says(each)
    path = next(paths(route, execution))
    for parameter in described(route).get("parameters", ()):
        if parameter["in"] == "query":
            for value in QUERIES:
                says(path, {parameter["name"]: value})
    says(path, {"surprise": "1"})
    if route.method == "POST":
        for body in BODIES:
            says(path, body=body)
        says(path, body=b64encode(b"\xff\xfe").decode(), base64=True)
        says(path, body="!", base64=True)
        for name in body_of(route).get("properties", ()):
            for value in VALUES:
                says(path, body=json.dumps({**well_formed(route, execution), name: value}))
    if route.method == "DELETE":
        ask(service, "POST", "/api/playbooks/test/hello/undelete")


def test_every_route_is_documented_with_its_refusals() -> None:
    documented = {(method.upper(), path) for path, methods in document()["paths"].items() for method in methods}
    elsewhere = {("POST", "/api/hooks/{path}/{trigger}")}  # a function of its own answers it
    assert documented - elsewhere == {(r.method, r.path.replace("+}", "}")) for r in routes()}
    assert elsewhere <= documented
    for methods in document()["paths"].values():
        for operation in methods.values():
            assert {"400", "403", "503"} <= set(operation["responses"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/api/executions"),
        ("HEAD", "/api/executions"),
        ("OPTIONS", "/api/executions"),
        ("GET", "/api/executions/"),
        ("GET", "/api/executions/1/"),
        ("GET", "/api/playbooks/"),
        ("GET", "/api"),
        ("GET", ""),
        ("POST", "/api/health"),
        ("GET", "/api/executions/<execution_id>/x"),
    ],
)
def test_an_unknown_route_is_not_found(service: Service, method: str, path: str) -> None:
    api = Api(service)
    event = {"httpMethod": method, "path": path, "headers": None, "body": None}
    answer = api.resolve(event, None)
    assert answer["statusCode"] == 404
    assert json.loads(answer["body"])["error"]["code"] == "not_found"
    assert api.route(event) == "none"


@pytest.mark.parametrize("path", ["a/b/c", "a%2Fb/c", "%61/b/c/", "a/b%2fc"])
def test_a_playbook_path_may_have_plain_or_encoded_slashes(service: Service, path: str) -> None:
    ask(service, "POST", "/api/playbooks", body=HELLO.replace("test/hello", "a/b/c"))
    assert ask(service, "GET", f"/api/playbooks/{path}").body["path"] == "a/b/c"
    assert ask(service, "GET", f"/api/playbooks/{path}/versions").body["versions"][0]["path"] == "a/b/c"


def test_a_body_is_json_whatever_its_content_type_says(service: Service) -> None:
    """`curl -d` says that it is a form."""
    body = json.dumps({"playbook": HELLO})
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/yaml", ""):
        assert ask(service, "POST", "/api/executions", body=body, headers={"Content-Type": kind}).status == 202, kind


def test_a_list_is_refused_as_the_body_of_a_request(service: Service) -> None:
    answer = ask(service, "POST", "/api/executions", body=json.dumps([{"playbook": HELLO}]))
    assert (answer.status, answer.body["error"]["message"]) == (400, "the body is a JSON list; an object is expected")


@pytest.mark.parametrize(
    ("body", "loc", "message", "hint"),
    [
        ({"playbook": "x", "paylod": {}}, "body.paylod", "unknown key 'paylod'", "did you mean 'payload'?"),
        (
            {"path": "x", "version": "1"},
            "body.version",
            "'1' is not a version: an int is expected, or the name of an alias",
            "",
        ),
        (
            {"path": "x", "parent": {"execution": "1"}},
            "body.parent.execution",
            "unknown key 'execution'",
            "did you mean 'execution_id'?",
        ),
        ({"path": "x", "parent": {}}, "body.parent.execution_id", "parent.execution_id is missing", ""),
    ],
)
def test_a_mistake_in_a_body_is_reported_with_place_and_hint(
    service: Service, body: dict[str, Any], loc: str, message: str, hint: str
) -> None:
    error = ask(service, "POST", "/api/executions", body=json.dumps(body)).body["error"]
    assert error["message"] == message
    assert error["details"][0] == {"loc": loc, "message": message, "hint": hint}


def test_all_mistakes_are_reported_at_once_unknown_names_first(service: Service) -> None:
    error = ask(service, "POST", "/api/events", body=json.dumps({"name": 7, "dta": 1})).body["error"]
    assert [d["loc"] for d in error["details"]] == ["body.dta", "body.execution_id", "body.name"]
