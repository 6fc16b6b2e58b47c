"""`noetl credentials`, and how the command line proves who asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.errors import USAGE, Exit
from tests.commands import in_process
from tests.servers import Handler, serving, url_of

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: daily, path: %s }
workflow: [{ step: read, tool: { kind: secrets, secret: api, field: token } }]
"""


@pytest.fixture
def noetl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NOETL_TOKEN", raising=False)
    return lambda *arguments: in_process(*arguments)


def test_a_credential_names_the_playbooks_that_may_read_it(noetl: Any, tmp_path: Path) -> None:
    put = noetl("credentials", "put", "api", "--data", '{"token": "tok-123456"}', "--paths", "reports/*", "--paths", "team/x")
    assert put.exit_code == 0, put.output
    noetl("credentials", "put", "open", "--data", '{"token": "tok-654321"}')
    listed = noetl("credentials", "ls").output
    assert "reports/*, team/x" in listed and "* (every playbook)" in listed
    assert "* (every playbook)" in noetl("credentials", "show", "open").output
    assert json.loads(noetl("credentials", "show", "api", "--output", "json").output)["paths"] == ["reports/*", "team/x"]


def test_a_run_of_a_file_reads_only_credentials_for_its_path(noetl: Any, tmp_path: Path) -> None:
    noetl("credentials", "put", "api", "--data", '{"token": "tok-123456"}', "--paths", "reports/*")
    (tmp_path / "in.yaml").write_text(PLAYBOOK % "reports/daily")
    (tmp_path / "out.yaml").write_text(PLAYBOOK % "team/daily")
    assert noetl("run", "in.yaml").exit_code == 0
    refused = noetl("run", "out.yaml")
    assert refused.exit_code == 1
    assert "kept for registered playbooks with a path like reports/*" in refused.output
    assert "tok-123456" not in refused.output


def test_a_pool_that_is_not_here_is_a_wrong_playbook(noetl: Any, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PLAYBOOK.replace("step: read,", "step: read, spec: { pool: big },") % "a/b")
    end = noetl("run", "p.yaml").exception
    assert isinstance(end, Exit)
    assert (end.code, "step read names pool 'big'" in str(end)) == (USAGE, True)


class Api(Handler):
    seen: list[str | None]

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        self.say(body=b'{"playbooks": []}')


@pytest.fixture
def api() -> Iterator[str]:
    Api.seen = []
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Api)) as server:
        yield url_of(server)


def test_a_token_is_sent_as_a_bearer_header_and_never_without_tls(noetl: Any, api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_API_URL", api)
    noetl("playbooks", "--on", "stack")
    monkeypatch.setenv("NOETL_TOKEN", "ey.J.x")
    assert noetl("playbooks", "--on", "stack").exit_code == 0
    assert Api.seen == [None, "Bearer ey.J.x"]
    monkeypatch.setenv("NOETL_API_URL", "http://api.example.com")
    end = noetl("playbooks", "--on", "stack").exception
    assert isinstance(end, Exit)
    assert (end.code, "without TLS" in str(end)) == (USAGE, True)
