"""The catalog over the API, and by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl_core.api.callers import name_of
from tests import api_requests, commands
from tests.unit.control.local_api import Asker
from tests.unit.control.versions import text

PATH = "etl/daily"


@pytest.fixture
def ask(tmp_path: Path) -> Asker:
    ask = Asker(tmp_path)
    for word in ("one", "two"):
        assert api_requests.ask(ask.service, "POST", "/api/playbooks", {}, body=text(word)).status == 201
    return ask


def test_aliases_tags_and_deletion_over_the_api(ask: Asker) -> None:
    moved = ask("POST", f"playbooks/{PATH}/aliases", {"name": "prod", "weights": {"1": 90, "2": 10}})
    assert (moved.status, moved.body["aliases"]) == (200, {"prod": {"1": 90, "2": 10}})
    ask("POST", f"playbooks/{PATH}/aliases", {"name": "test", "version": 2})
    assert ask("POST", f"playbooks/{PATH}/tags", {"add": ["nightly"], "remove": ["x"]}).body["tags"] == ["nightly"]
    (listed,) = ask("GET", "playbooks", tag="nightly").body["playbooks"]
    assert (listed["aliases"], listed["tags"]) == ({"prod": {"1": 90, "2": 10}, "test": {"2": 1}}, ["nightly"])
    assert ask("GET", "playbooks", tag="weekly").body["playbooks"] == []
    assert ask("GET", f"playbooks/{PATH}", version="test").body["version"] == 2
    assert ask("GET", f"playbooks/{PATH}@1").body["version"] == 1
    split = ask("GET", f"playbooks/{PATH}", version="prod")
    assert (split.status, "is split between the versions 1=90 2=10" in split.body["error"]["message"]) == (404, True)
    started = ask("POST", "executions", {"path": f"{PATH}@test"})
    assert (started.status, started.body["playbook"]["version"]) == (202, 2)
    both = ask("POST", "executions", {"path": f"{PATH}@test", "version": 1})
    assert (both.status, both.body["error"]["details"][0]["hint"]) == (400, "leave one of them out")
    about = ask("GET", f"playbooks/{PATH}/about").body
    assert [change["what"] for change in about["changes"]] == [
        "tags: none -> nightly",
        "alias test: none -> 2",
        "alias prod: none -> 1=90 2=10",
        "registered version 2",
        "registered version 1",
    ]
    assert ask("DELETE", f"playbooks/{PATH}").body["deleted_at"]
    gone = ask("POST", "executions", {"path": PATH})
    assert (gone.status, gone.body["error"]["code"]) == (410, "deleted")
    assert ask("GET", "playbooks").body["playbooks"] == []
    assert [p["path"] for p in ask("GET", "playbooks", deleted="true").body["playbooks"]] == [PATH]
    assert ask("GET", f"playbooks/{PATH}").status == 200, "its text can still be read"
    assert ask("POST", f"playbooks/{PATH}/undelete", {}).body["deleted_at"] is None
    assert ask("POST", "executions", {"path": PATH}).status == 202


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"name": "prod"}, 400, "pass exactly one of version"),
        ({"name": "prod", "version": 1, "remove": True}, 400, "pass exactly one of version"),
        ({"name": "prod", "weights": {"x": 1}}, 400, "'x' is not a version number"),
        ({"name": "prod", "weights": {"1": "1"}}, 400, "expected"),
        ({"name": "prod", "version": 9}, 404, "version 9"),
        ({"name": "latest", "version": 1}, 422, "cannot be an alias"),
        ({"name": "prod", "remove": True}, 404, "no alias 'prod'"),
        ({"name": "prod", "versoin": 1}, 400, "unknown key 'versoin'"),
    ],
)
def test_invalid_alias_requests_are_refused(ask: Asker, body: dict[str, Any], status: int, says: str) -> None:
    answer = ask("POST", f"playbooks/{PATH}/aliases", body)
    assert (answer.status, says in answer.body["error"]["message"]) == (status, True), answer.body


@pytest.mark.parametrize(
    ("caller", "name"),
    [
        ({}, "anonymous"),
        ({"identity": {"userArn": "arn:aws:iam::1:user/ada"}}, "arn:aws:iam::1:user/ada"),
        ({"authorizer": {"claims": {"sub": "0-1", "username": "ada"}}}, "ada"),
        ({"authorizer": {"claims": {"client_id": "ci"}}}, "ci"),
    ],
)
def test_a_change_records_the_caller_named_by_the_gateway(ask: Asker, caller: dict[str, Any], name: str) -> None:
    assert (name_of(caller) or "anonymous") == name
    answer = ask("POST", f"playbooks/{PATH}/tags", {"add": ["x"]}, caller)
    assert answer.body["changes"][0]["by"] == name


def test_the_command_line(tmp_path: Path) -> None:
    def noetl(*arguments: str, code: int = 0) -> str:
        done = commands.run(*arguments, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    for word in ("one", "two"):
        (tmp_path / f"{word}.yaml").write_text(text(word))
        noetl("register", f"{word}.yaml", "--on", "local")
    local = ("--on", "local")
    assert noetl("playbooks", "alias", PATH, "prod", "1", *local) == "etl/daily@prod is version 1\n"
    assert json.loads(noetl("run", f"{PATH}@prod", "--output", "json"))["result"] == "one"
    assert noetl("playbooks", "alias", PATH, "prod", "1=90", "2=10", *local) == "etl/daily@prod is version 1=90 2=10\n"
    assert noetl("playbooks", "tag", PATH, "nightly", *local) == "etl/daily: nightly\n"
    listed = noetl("playbooks", *local)
    assert "prod: 1=90 2=10" in listed
    assert "nightly" in listed
    shown = noetl("playbooks", "show", PATH, *local)
    assert "versions: 1, 2" in shown
    assert "alias prod: 1 -> 1=90 2=10" in shown
    assert "did you mean" in noetl("run", f"{PATH}@prd", code=2)
    assert "has no version after the @" in noetl("run", f"{PATH}@", code=2)
    noetl("playbooks", "delete", PATH, *local)
    assert "was deleted at" in noetl("run", PATH, code=2)
    assert json.loads(noetl("playbooks", "ls", "--deleted", *local, "--output", "json"))[0]["path"] == PATH
    assert noetl("playbooks", "undelete", PATH, *local) == "etl/daily version 2 starts again\n"
    assert noetl("playbooks", "alias", PATH, "prod", "--remove", *local) == "etl/daily@prod is removed\n"
    for wrong in (["prod"], ["prod", "x"], ["prod", "1", "2"], ["prod", "1=2", "1=3"], ["prod", "1", "--remove"]):
        noetl("playbooks", "alias", PATH, *wrong, *local, code=2)
