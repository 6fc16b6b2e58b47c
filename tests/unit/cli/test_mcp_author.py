"""`noetl mcp --author`: an assistant validates, tests, runs and explains playbooks of one folder, and reads the manual."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from noetl_cli.mcp import authoring as module
from noetl_cli.mcp import manual
from noetl_cli.mcp.authoring import authoring
from noetl_cli.mcp.server import server
from tests.unit.cli.runs import HELLO

BROKEN = HELLO.replace("workflow:", "workflw:")
TESTS = "tests:\n  - test: it greets\n    expect: { status: completed }\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hello.yaml").write_text(HELLO)
    return tmp_path


def session(
    use: Callable[[Callable[..., Awaitable[tuple[Mapping[str, Any], bool]]]], Awaitable[None]],
    own: module.Authoring | None = None,
) -> None:
    """Use the tools (`own`, or those of the command); a call returns its data, and whether it failed."""

    async def connect() -> None:
        with authoring(None) as tools:
            async with Client(server(own or tools, module.INSTRUCTIONS)) as client:

                async def call(name: str, **arguments: Any) -> tuple[Mapping[str, Any], bool]:
                    result = await client.call_tool(name, arguments)
                    return result.structured_content, result.is_error

                await use(call)

    anyio.run(connect)


def test_a_playbook_is_validated_in_a_process_of_its_own(folder: Path) -> None:
    (folder / "json.py").write_text("raise SystemExit('a file of the folder is imported')")
    (folder / "broken.yaml").write_text(BROKEN)

    async def use(call: Any) -> None:
        found, failed = await call("validate", file="broken.yaml")
        assert failed
        assert (found["exit_code"], found["output"][0]["code"]) == (2, "E110")

    session(use)


def test_the_page_names_the_arguments_of_each_tool() -> None:
    page = (Path(__file__).parents[3] / "docs/mcp.md").read_text().partition("## Assistants that write playbooks")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    with authoring(None) as tools:
        own = anyio.run(tools.tools, None)
    assert {name: set(re.findall(r"`(\w+)`", takes)) for name, takes in rows.items()} == {
        name: set(tool.schema["properties"]) for name, tool in own.items()
    }


@pytest.mark.nightly  # a process for each call; the test above has one
def test_a_playbook_is_written_tested_run_and_explained(folder: Path) -> None:
    (folder / "hello.test.yaml").write_text(TESTS)

    async def use(call: Any) -> None:
        assert await call("validate", file="hello.yaml") == ({"exit_code": 0, "output": []}, False)
        tested, failed = await call("test")
        assert not failed
        assert [each["name"] for each in tested["output"]["tests"]] == ["it greets"]
        ran, failed = await call("run", file="hello.yaml", payload={"name": "Ada"}, timeout_s=30)
        assert not failed
        assert ran["output"]["status"] == "completed"
        why, failed = await call("why", execution_id=ran["output"]["execution_id"])
        assert not failed
        assert why["output"]["causes"] == []
        assert not (folder / ".noetl").exists()  # the executions of the assistant are in no store of the project
        refused, failed = await call("run", file="hello.yaml", payload={"name": "Ada"}, timeout_s=0)
        assert failed
        assert "below 1" in refused["error"]

    session(use)


def test_files_outside_of_the_folder_are_refused(folder: Path) -> None:
    (folder / "link.yaml").symlink_to("/etc/hostname")

    async def use(call: Any) -> None:
        for file in ("../x.yaml", "/etc/passwd", "link.yaml", "a/../../x.yaml"):
            found, failed = await call("validate", file=file)
            assert failed
            assert found["error"] == f"{file} is outside of {folder}"

    session(use)


def test_a_command_that_does_not_end_is_ended(folder: Path) -> None:
    async def use(call: Any) -> None:
        assert await call("validate", file="hello.yaml") == ({"error": "the command did not end within 0.1 s"}, True)

    session(use, module.Authoring(str(folder / "runs.db"), command_s=0.1))


def test_the_schema_is_read_in_parts() -> None:
    async def use(call: Any) -> None:
        names, _ = await call("schema")
        assert {"loop", "task_policy"} <= set(names["definitions"])
        loop, _ = await call("schema", definition="loop")
        assert "iterator" in json.loads(loop["schema_json"])["properties"]
        assert (await call("schema", of="test"))[0]["root"]["anyOf"]
        found, failed = await call("schema", definition="lop")
        assert failed
        assert "there is no definition lop" in found["error"]

    session(use)


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("retry an http request after 503 with backoff", "recipes/retry.md"),
        ("a person approves by mail", "recipes/approve.md"),
        ("max_in_flight parallel loop", "language/loops.md"),
        ("cron schedule catch up", "triggers.md"),
        ("scripted tools in a test file", "testing.md"),
    ],
)
def test_the_manual_is_searched_by_words(query: str, page: str) -> None:
    assert page in [found["page"] for found in manual.search(query)[:3]]


def test_pages_are_read_whole_by_section_and_in_parts() -> None:
    async def use(call: Any) -> None:
        page, _ = await call("manual_read", page="language/loops.md")
        assert page["text"].startswith("# Loops")
        rest, _ = await call("manual_read", page="language/loops.md", offset=page.get("next_offset", 5))
        assert rest["text"]
        section, _ = await call("manual_read", page="language/playbook.md", section="metadata")
        assert section["text"].startswith("## `metadata`")
        assert (await call("manual_read", page="docs/language/lint/W515.md#x"))[0]["page"] == "language/lint/W515.md"
        for page_name in ("language/lops.md", "../README.md", "/etc/passwd"):
            found, failed = await call("manual_read", page=page_name)
            assert failed
            assert f"the manual has no page {page_name}" in found["error"]
        assert "it has" in (await call("manual_read", page="language/playbook.md", section="nothing"))[0]["error"]
        assert (await call("manual_search", query="zzqqxx"))[0] == {"found": []}

    session(use)
