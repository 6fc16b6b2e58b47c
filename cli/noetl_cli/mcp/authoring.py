"""Tools for assistants that write playbooks: they validate, test and run files of one folder, and read the manual.

Each runs a command of `noetl` in a process of its own, so that an endless test or a crash ends that process alone. The client has
started this server, so it has the rights of this user; paths outside of the folder are refused, so that a mistake stays in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from noetl_cli.errors import USAGE, Exit
from noetl_cli.mcp import manual
from noetl_cli.mcp.tools import OFFSET, PAGE, Answer, Call, Schema, Tool, inputs, page
from noetl_core.dsl.schema import playbook_schema
from noetl_core.testing.fields import test_schema

INSTRUCTIONS: Final = (
    "Tools for writing NoETL playbooks in the current folder. Read language/README.md and first-playbook.md of the manual first."
    " Write PLAYBOOK.yaml and PLAYBOOK.test.yaml as files, then validate, test and run until nothing is reported;"
    " validate names the page about each finding."
)
COMMAND_S: Final = 300
FILE: Final[Schema] = {"type": "string", "description": "A file or folder, relative to the current folder"}
TEXT: Final[Schema] = {"type": "string"}
SECONDS: Final[Schema] = {"type": "number", "minimum": 1, "maximum": 250}
FILES: Final = inputs("file", file=FILE)
TESTS: Final = inputs(file=FILE, only={**TEXT, "description": "Only cases whose name contains this text"})
RUN: Final = inputs("file", file=FILE, payload={"type": "object"}, timeout_s=SECONDS)
WHY: Final = inputs("execution_id", execution_id=TEXT, step=TEXT)
SCHEMA: Final = inputs(of={"enum": ["playbook", "test"]}, definition=TEXT, offset=OFFSET)
READ: Final = inputs("page", page=TEXT, section=TEXT, offset=OFFSET)


class Authoring:
    """The tools. Executions are kept in `store` while the server runs. A command is ended after `command_s` seconds."""

    def __init__(self, store: str, command_s: float = COMMAND_S) -> None:
        self._store, self._command_s, self._folder = store, command_s, Path.cwd().resolve()
        about = [
            ("validate", "Check a playbook: errors and warnings, with line, column and hint", FILES, self._validate),
            ("test", "Run the tests of playbooks (*.test.yaml), in virtual time, without calling services", TESTS, self._test),
            ("run", "Run a playbook on this machine. It calls the services that it names", RUN, self._run),
            ("why", "Explain why an execution ended as it did, or why a step ran or did not", WHY, self._why),
            ("schema", "The JSON Schema of playbooks or test files: its definitions, or one of them", SCHEMA, self._schema),
            ("manual_search", "Sections of the manual that fit some words", inputs("query", query=TEXT), self._search),
            ("manual_read", "A page of the manual, such as language/steps.md, or one of its sections", READ, self._read),
        ]
        self._tools = {name: Tool(name, text, form, run, name != "run") for name, text, form, run in about}

    async def tools(self, authorization: str | None) -> Mapping[str, Tool]:
        return self._tools

    async def _validate(self, call: Call) -> Answer:
        return await self._noetl("validate", "--output", "json", "--", self._path(call))

    async def _test(self, call: Call) -> Answer:
        only = ["-k", str(call.arguments["only"])] if "only" in call.arguments else []
        return await self._noetl("test", "--output", "json", *only, "--", self._path(call))

    async def _run(self, call: Call) -> Answer:
        payload = json.dumps(call.arguments.get("payload", {}))  # never `@file`
        timeout_s = str(call.arguments.get("timeout_s", 60))
        options = ("--payload", payload, "--timeout", timeout_s, "--store", self._store, "--output", "json")
        return await self._noetl("run", *options, "--", self._path(call))

    async def _why(self, call: Call) -> Answer:
        named = [str(call.arguments[name]) for name in ("execution_id", "step") if name in call.arguments]
        return await self._noetl("why", "--store", self._store, "--on", "local", "--output", "json", "--", *named)

    async def _schema(self, call: Call) -> Answer:
        schema: dict[str, Any] = test_schema() if call.arguments.get("of") == "test" else playbook_schema()
        known, name = schema.pop("$defs", {}), call.arguments.get("definition")
        if name is None:
            return Answer({"root": schema, "definitions": sorted(known)})
        if name not in known:
            raise Exit(USAGE, f"there is no definition {str(name)[:100]}: there are {', '.join(sorted(known))}")
        return Answer({"definition": name, **page(json.dumps(known[name]), int(call.arguments.get("offset", 0)), "schema_json")})

    async def _search(self, call: Call) -> Answer:
        return Answer({"found": manual.search(str(call.arguments["query"])[:400])})

    async def _read(self, call: Call) -> Answer:
        return Answer(manual.read(**call.arguments))

    # --- commands -------------------------------------------------------------------------------------------------------

    def _path(self, call: Call) -> str:
        """Return the path that a call names, by default the folder. Raises `Exit(2)` if it is outside of it."""
        name = str(call.arguments.get("file", "."))
        file = (self._folder / name).resolve()
        if not file.is_relative_to(self._folder):
            raise Exit(USAGE, f"{name[:200]} is outside of {self._folder}")
        return str(file.relative_to(self._folder))

    async def _noetl(self, *arguments: str) -> Answer:
        """Run a command; return its data and its messages."""
        command = [sys.executable, "-P", "-m", "noetl_cli.main", *arguments]  # -P: a json.py of the folder is not imported
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, cwd=self._folder, **streams, encoding="utf-8", errors="replace")
        try:
            with anyio.fail_after(self._command_s):
                out, told = await anyio.to_thread.run_sync(process.communicate, abandon_on_cancel=True)
        except TimeoutError:
            return Answer({"error": f"the command did not end within {self._command_s:g} s"}, failed=True)
        finally:
            process.kill()  # also if the client gives the call up, perhaps before the thread began to wait
            process.wait()
        data: dict[str, Any] = {"exit_code": process.returncode}
        if out:
            data |= {"output": json.loads(out)} if len(out) <= PAGE else page(out, 0, "output")
        return Answer(data | ({"messages": told[-PAGE:]} if told else {}), failed=process.returncode != 0)


@contextmanager
def authoring(store: str | None) -> Iterator[Authoring]:
    """Make the tools; without `store`, executions are kept as long as the server runs."""
    with tempfile.TemporaryDirectory(prefix="noetl-mcp-") as folder:
        yield Authoring(store or f"{folder}/runs.db")
