"""Whole playbooks in the dialect of the field (`field/`): each validates, runs to what it says against a service and a database of
this machine, and is the same playbook once `noetl migrate` has rewritten it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from jsonschema import Draft202012Validator

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import StartRequest, register
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check
from noetl_core.dsl.reading.load import load
from noetl_core.dsl.schema import playbook_schema
from noetl_core.playbooks.script_files import with_scripts
from noetl_core.ports import NotFound
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from noetl_migrate import migrate
from tests.databases import postgres
from tests.servers import Handler, serving, url_of

FOLDER = Path(__file__).parent / "field"
FILES = sorted(FOLDER.glob("*.yaml"))
SCHEMA = Draft202012Validator(playbook_schema())
POSTS = [{"id": n, "userId": 1 + n // 3, "title": title} for n, title in ((1, "a"), (2, "b"), (3, "c"))]


class Service(Handler):
    """Cities, posts, users, pages of patients, orders and jobs; busy at first where it is asked to be."""

    calls: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        asked = {key: values[0] for key, values in parse_qs(place.query).items()}
        self.calls[place.path] += 1
        self._answer(place.path, asked, self.calls[place.path])

    def do_POST(self) -> None:
        body = self.told().decode()
        self.calls[self.path] += 1
        if self.path == "/oauth2/token":
            fields = {key: values[0] for key, values in parse_qs(body).items()}
            right = fields == {"grant_type": "client_credentials", "client_id": "me", "client_secret": "s3cret-word"}
            self._json(200 if right else 401, {"access_token": f"token-{self.calls[self.path]}", "expires_in": 3600})
        elif self.path == "/orders":
            bad = '"bad"' in body
            self._json(422 if bad else 201, {} if bad else {"id": 7})
        else:
            self._json(404, {})

    def _answer(self, path: str, asked: Mapping[str, str], call: int) -> None:
        name = path.split("/")[1]
        if name == "forecast":
            self._json(200, {"hourly": {"temperature_2m": [20.5, 30.5 if asked["latitude"] == "48.85" else 21.0]}})
        elif name == "posts":
            self._json(200, POSTS)
        elif path == "/users":
            self._json(200, [{"id": 1}, {"id": 2}])
        elif name == "users" and path != "/users/99":
            self._json(200, {"id": int(path.rsplit("/", 1)[1])})
        elif name == "patients":
            page = int(asked["page"])
            self._json(200, {"data": [{"id": 2 * page - 1}, {"id": 2 * page}], "paging": {"page": page, "hasMore": page < 2}})
        elif name in ("flaky", "busy"):
            self._json(200 if name == "flaky" and call > 2 else 503, {"attempt": call})
        elif name == "jobs":
            self._json(200, {"state": "done" if call > 2 else "running"})
        elif name == "secured":
            self._json(200 if self.headers.get("Authorization") == "Bearer t0ken-word" else 401, {})
        elif name == "whoami":
            known = (self.headers.get("Authorization") or "").startswith("Bearer token-")
            self._json(200 if known else 401, {"tokens": self.calls["/oauth2/token"]})
        else:
            self._json(404, {"error": "nothing here"})

    def _json(self, status: int, body: Any) -> None:
        self.say(status, json.dumps(body).encode(), Content_Type="application/json")


class Stored(LocalSecrets):
    def __init__(self, dsn: str) -> None:
        super().__init__(Path("no-such-file"), {})
        self._stored: dict[str, Mapping[str, Any]] = {
            "pg_k8s": {"type": "postgres", "data": {"dsn": dsn}},
            "api_token": {"type": "bearer", "data": {"token": "t0ken-word"}},
            "client_id": {"data": {"value": "me"}},
            "client_secret": {"data": {"value": "s3cret-word"}},
        }

    def get(self, name: str) -> Mapping[str, Any]:
        if name not in self._stored:
            raise NotFound(f"there is no credential {name!r}")
        return self._stored[name]


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with serving(HTTPServer(("127.0.0.1", 0), Service)) as server:
        yield url_of(server)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres() as uri:
        yield uri


def whole(file: Path) -> str:
    return with_scripts(file.read_text(), file.parent)


def model(text: str) -> Playbook:
    playbook, found = check(text)
    assert [str(d) for d in found if d.severity == "error"] == []
    assert playbook is not None
    return replace(playbook, metadata={**playbook.metadata, "path": str(playbook.metadata["path"]).lstrip("/")})


def ran(text: str, payload: Mapping[str, Any], secrets: Stored) -> dict[str, Any]:
    local = LocalWiring(secrets=secrets)
    try:
        register(local.control, whole(FOLDER / "user_scorer.yaml"))
        started = local.start(StartRequest(playbook=text, payload=payload))
        assert local.run(started.execution_id, timeout_s=60)
        return executions.summary(local.control, started.execution_id)
    finally:
        local.close()


@pytest.mark.one_in(12)
@pytest.mark.parametrize("file", [f for f in FILES if "x-expect: null" not in f.read_text()], ids=lambda file: file.stem)
def test_the_playbook_gives_its_expected_outcome(
    file: Path, service: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "1")
    Service.calls.clear()
    text = whole(file)
    root = load(text).root
    assert root is not None
    expected = root.value["x-expect"].plain()
    workload = root.get("workload")
    payload = {"api": service} if workload is not None and workload.get("api") is not None else {}
    out = ran(text, payload, Stored(database))
    error = out["error"] or {}
    assert out["status"] == expected.pop("status"), error
    for key, value in expected.items():
        assert (error if key in ("kind", "message") else out)[key] == value


@pytest.mark.one_in(4)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_the_same_playbook_in_the_canonical_form(file: Path) -> None:
    text = whole(file)
    root = load(text).root
    assert root is not None
    SCHEMA.validate(root.plain())
    migrated = migrate(file.read_text())
    assert not migrated.failed, migrated.diagnostics
    assert model(with_scripts(migrated.text, file.parent)) == model(text)
    assert not migrate(migrated.text).changed
    assert [line for line in file.read_text().splitlines() if line.startswith("#")] == [
        line for line in migrated.text.splitlines() if line.startswith("#")
    ]
