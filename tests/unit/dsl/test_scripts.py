"""`script: {uri, source}`: program text and SQL in files, in S3 and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from noetl_core import run as run_embedded
from noetl_core.dsl.dump import dump
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.reading.load import load
from noetl_core.dsl.schema import playbook_schema
from noetl_core.dsl.steps.scripts import files_of, holding
from noetl_core.playbooks.script_files import MAX_BYTES, UnreadableScript, with_scripts
from noetl_core.tools.aws.clients import client
from noetl_core.views.executions import executions
from noetl_migrate import migrate
from tests.commands import run as noetl
from tests.fast_moto import mock_aws
from tests.running import run_text
from tests.servers import Handler, serving, url_of
from tests.unit.dsl.broken_playbooks import flow

SCHEMA = Draft202012Validator(playbook_schema())


def one(task: str) -> str:
    return flow(f"step: a\ntool:\n  {task}")


def ran(text: str) -> dict[str, Any]:
    local, state = run_text(text)
    try:
        return executions.summary(local.control, state.execution_id)
    finally:
        local.close()


def errors(text: str) -> list[str]:
    root = load(text).root
    assert root is not None
    return [f"{d.code} {d.message}" for d in check(text)[1] if d.severity == "error"]


PYTHON = "{kind: python, script: %s, args: {n: 21}}"
DOUBLE = "# doubles\nresult = n * 2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/double.py").write_text(DOUBLE)
    (tmp_path / "count.sql").write_text("SELECT {{ args.n | default(3) }} AS n, $m AS m")
    return tmp_path


# --- files --------------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "script",
    [
        "scripts/double.py",
        "./scripts/double.py",
        "{uri: scripts/double.py}",
        "{uri: 'file://scripts/double.py'}",
        "{uri: scripts/double.py, source: file}",
        "{uri: ./scripts/double.py, source: {type: file}}",
        "{path: scripts/double.py, source: local}",
    ],
)
def test_a_file_beside_the_playbook_is_a_part_of_it(folder: Path, script: str) -> None:
    text = one(PYTHON % script)
    assert errors(text)[0].startswith('E130 script of task "a_task" needs the file ')
    whole = with_scripts(text, folder)
    assert errors(whole) == []
    root = load(whole).root
    assert root is not None
    SCHEMA.validate(root.plain())
    assert whole.startswith(text)
    assert with_scripts(whole, folder / "scripts") == whole
    playbook = parse_playbook(whole)
    assert playbook.steps[0].tasks[0].inputs["code"] == DOUBLE
    assert parse_playbook(dump(playbook)) == playbook
    assert ran(whole)["result"] == 42


def test_sql_in_a_file_is_a_template_as_in_the_playbook(folder: Path) -> None:
    text = with_scripts(one("{kind: duckdb, script: {uri: count.sql}, params: {m: 5}}"), folder)
    assert ran(text)["result"]["rows"] == [{"n": 3, "m": 5}]
    (folder / "count.sql").write_text("SELECT {{ args. }}")
    assert [e.split(" ")[0] for e in errors(with_scripts(one("{kind: duckdb, script: count.sql}"), folder))] == ["E301"]


def test_scripts_of_workbooks_and_branches_are_embedded(folder: Path) -> None:
    steps = "workflow:\n  - {step: a, tool: [{choose: [{when: '{{ true }}', then: [{kind: workbook, name: w, task: w}]}]}]}\n"
    text = (
        one("{kind: noop}").split("workflow:")[0]
        + "workbook: {w: {kind: python, args: {n: 1}, script: scripts/double.py}}\n"
        + steps
    )
    assert list(files_of(text)) == ["scripts/double.py"]
    assert errors(with_scripts(text, folder)) == []


def test_scripts_are_embedded_in_a_json_playbook(folder: Path) -> None:
    root = load(one(PYTHON % "scripts/double.py")).root
    assert root is not None
    whole = with_scripts(json.dumps(root.plain()), folder)
    assert ran(whole)["result"] == 42


@pytest.mark.parametrize("outside", ["../secret.py", "/etc/hostname", "scripts/../../secret.py", "link.py", "scripts", "none.py"])
def test_files_outside_the_folder_are_not_embedded(tmp_path: Path, outside: str) -> None:
    (tmp_path / "secret.py").write_text("result = 1")
    inside = tmp_path / "inside"
    (inside / "scripts").mkdir(parents=True)
    (inside / "link.py").symlink_to(tmp_path / "secret.py")
    text = one(PYTHON % outside)
    assert with_scripts(text, inside) == text


@pytest.mark.parametrize("where", [".env", ".aws/credentials", "sub/.noetl/key"])
def test_hidden_files_are_not_embedded_as_scripts(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder may be somebody's home."""
    (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / where).write_text("key = 'secret'")
    monkeypatch.chdir(tmp_path)
    text = one(PYTHON % where)
    assert with_scripts(text, tmp_path / "elsewhere") == text


@pytest.mark.parametrize("name", ['"\\0x.py"', "a" * 5000, "a/" * 3000 + "x.py"], ids=["null", "long", "deep"])
def test_an_impossible_file_name_is_reported_as_a_missing_script(tmp_path: Path, name: str) -> None:
    text = with_scripts(one(PYTHON % name), tmp_path)
    assert [one.code for one in check(text)[1]] == ["E130"]


def test_oversized_and_non_utf8_files_are_refused_as_scripts(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("#" * (MAX_BYTES + 1))
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    for name, message in (("long.py", "larger than 1024 KB"), ("bytes.py", "not text in UTF-8")):
        with pytest.raises(UnreadableScript, match=message):
            with_scripts(one(PYTHON % name), tmp_path)


def test_hostile_texts_in_files_stay_text(tmp_path: Path) -> None:
    hostile = 'x: "\n---\n- {{ }} %} \u2028 \x7f" \\ # é\n\tresult = 1\n'.replace("\x7f", "")
    assert parse_playbook(holding(one(PYTHON % "a.py"), {"a.py": hostile})).steps[0].tasks[0].inputs["code"] == hostile


def test_from_the_command_line_and_a_program(folder: Path) -> None:
    file = folder / "playbook.yaml"
    file.write_text(one(PYTHON % "scripts/double.py"))
    assert noetl("validate", str(file), cwd=folder.parent).returncode == 0
    told = noetl("run", str(file), "--output", "json", "--store", str(folder / "store"), cwd=folder.parent)
    assert json.loads(told.stdout)["result"] == 42
    assert run_embedded(file).result == 42
    (folder / "scripts/double.py").unlink()
    told = noetl("validate", str(file), cwd=folder.parent)
    assert told.returncode == 2
    assert "E130" in told.stdout + told.stderr


def test_migrate_leaves_files_where_they_are_and_flattens_source() -> None:
    text = one("{kind: python, script: {uri: s3://b/x.py, source: {type: s3, region: eu-west-1, credential: c}}}")
    migrated = migrate(text)
    assert not migrated.failed, migrated.diagnostics
    assert "script: { uri: s3://b/x.py, source: s3, auth: c }" in migrated.text
    assert not migrate(one(PYTHON % "scripts/none.py")).changed


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("{kind: python, script: {source: file}}", 'E111 script of task "a_task" has no uri'),
        ("{kind: python, script: 'gs://b/x.py'}", 'E113 script of task "a_task" cannot be read from "gs://b/x.py"'),
        ("{kind: python, script: {uri: x, source: gcs}}", 'E113 source of script of task "a_task" cannot be "gcs"'),
        ("{kind: python, script: {uri: x, sorce: s3}}", 'E110 unknown key "sorce" in script of task "a_task"'),
        ("{kind: python, script: a.py, code: pass}", 'E114 task "a_task" has script and code'),
        (
            "{kind: python, script: '{{ workload.file }}'}",
            'E112 uri of script of task "a_task" must be known when the playbook is registered',
        ),
        ("{kind: noop, script: a.py}", 'E110 unknown key "script" in task "a_task"'),
    ],
)
def test_invalid_script_declarations_are_refused(task: str, expected: str) -> None:
    assert expected in errors(one(task))


# --- fetched when the task runs -----------------------------------------------------------------------------------------


class Scripts(Handler):
    def do_GET(self) -> None:
        if self.path == "/code/double.py" and self.headers.get("X-Token") in (None, "t"):
            self.say(200, DOUBLE.encode(), Content_Type="text/x-python")
        elif self.path == "/long.py":
            self.say(200, b"#" * (MAX_BYTES + 1))
        else:
            self.say(404, b"no such file")


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with serving(HTTPServer(("127.0.0.1", 0), Scripts)) as server:
        yield url_of(server)


def test_over_http(host: str) -> None:
    assert ran(one(PYTHON % f"'{host}/code/double.py'"))["result"] == 42
    assert (
        ran(
            one(
                PYTHON
                % f"{{uri: code/double.py, source: {{type: http, endpoint: '{host}', headers: {{X-Token: t}}, method: GET}}}}"
            )
        )["result"]
        == 42
    )
    out = ran(one(PYTHON % f"'{host}/none.py'"))
    assert (out["status"], out["error"]["kind"]) == ("failed", "not_found")
    assert out["error"]["message"].startswith("script: ")
    assert ran(one(PYTHON % f"'{host}/long.py'"))["error"]["kind"] == "limit"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("uri", ["{other}/code/double.py", "//{netloc}/code/double.py", "{{{{ workload.uri }}}}"])
def test_headers_and_credentials_of_the_endpoint_reach_no_other_host(host: str, uri: str) -> None:
    """Neither an absolute address in the playbook nor a redirect of the endpoint sends them elsewhere."""
    heard: list[dict[str, str]] = []

    class Other(Handler):
        def do_GET(self) -> None:
            heard.append({name.lower(): value for name, value in self.headers.items()})
            self.say(200, DOUBLE.encode())

    class Redirecting(Handler):
        def do_GET(self) -> None:
            self.say(302, b"", Location=f"{url_of(other)}/code/double.py")

    with serving(HTTPServer(("127.0.0.1", 0), Other)) as other, serving(HTTPServer(("127.0.0.1", 0), Redirecting)) as leading:
        elsewhere = f"{url_of(other)}/code/double.py"
        sent = f"endpoint: '{host}', headers: {{X-Token: t}}, auth: {{type: bearer, token: hunter2}}"
        address = uri.format(other=url_of(other), netloc=url_of(other).removeprefix("http://"))
        text = one(PYTHON % f"{{uri: '{address}', source: {{type: http, {sent}}}}}") + f"workload: {{uri: '{elsewhere}'}}\n"
        out = ran(text)
        assert (out["status"], out["error"]["kind"]) == ("failed", "schema") and "leads away" in out["error"]["message"], out
        assert not heard
        ran(one(PYTHON % f"{{uri: double.py, source: {{type: http, {sent.replace(host, url_of(leading))}}}}}"))
    assert len(heard) == 1 and not {"authorization", "x-token"} & heard[0].keys()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        s3 = client("s3")
        s3.create_bucket(Bucket="etl-code")
        s3.put_object(Bucket="etl-code", Key="jobs/double.py", Body=DOUBLE.encode())
        s3.put_object(Bucket="etl-code", Key="count.sql", Body=b"SELECT 7 AS n")
        yield "etl-code"


def test_from_s3(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(one(PYTHON % f"s3://{bucket}/jobs/double.py"))["result"] == 42
    assert ran(one(f"{{kind: duckdb, script: {{uri: count.sql, bucket: {bucket}, source: s3}}}}"))["result"]["rows"] == [{"n": 7}]
    assert ran(one(PYTHON % f"s3://{bucket}/none.py"))["error"]["kind"] == "not_found"
    monkeypatch.setenv("STACK_RESOURCES", "{}")
    out = ran(one(PYTHON % f"s3://{bucket}/jobs/double.py"))
    assert out["error"]["kind"] == "auth"
    assert "ToolBuckets" in out["error"]["message"]
