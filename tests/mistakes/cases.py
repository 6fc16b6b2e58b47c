"""The cases of `mistakes.yaml` and `by_part.yaml`, validated and run in this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.control.admit import StartRequest, register
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.reading.diagnostics import Diagnostic
from noetl_core.dsl.versions import Version
from noetl_core.engine.outcome import Outcome
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from tests.unit.docs.language import DemoService, completed

FILE = Path(__file__).parent / "mistakes.yaml"
BY_PART = FILE.with_name("by_part.yaml")
PAGE = Path(__file__).parents[2] / "docs/language/mistakes.md"
HEAD = """# Mistakes

This page lists mistakes of authors, and the check that finds each of them. It is generated from the playbooks in `tests/mistakes`. The tests validate and run each
playbook. `noetl run` and `noetl register` also report what lint finds. A [strict](playbook.md#strict) execution fails because of a mistake that lint finds, unless the table
says why the execution completes. Errors and warnings of `noetl validate` also name the place; [diagnostics](diagnostics.md) explains their codes.
"""
SECOND = """
## By parts of the language

The tables below list another hundred mistakes, from all parts of the language and all kinds of tasks. Validation finds each mistake at its place, unless a table gives the reason why
only a run finds it.
"""
_STEP = "workflow: [{ step: work, tool: { kind: noop, result: '{{ workload.customer }}' } }]\n"
CHILDREN = {
    "docs/child": f"workload: {{ customer: 0 }}\n{_STEP}",
    "docs/strict_child": "workload: { x-schema: { required: [customer], properties: { customer: { type: integer }, note: {} } } }\n"
    + _STEP,
}


class Service(DemoService):
    """The service of the examples; other URLs than those of HTTP are refused as the tool refuses them."""

    def run(self, call: ToolCall) -> Outcome:
        url = str(call.inputs["url"])
        return super().run(call) if url.startswith("https://") else HttpTool().run(call)


class Case(NamedTuple):
    """One mistake."""

    topic: str
    mistake: str
    found_by: str
    says: str
    play: str
    code: str = ""
    passes: str = ""
    """For a mistake that lint alone finds: the reason why a strict execution completes."""
    at: str = ""
    """The text at the place of the finding."""
    why: str = ""
    """For a mistake that is found when it runs: the reason."""


def cases(file: Path = FILE) -> list[Case]:
    return [Case(**entry) for entry in yaml.load(file.read_text(), yaml.CSafeLoader)]


@cache
def child(path: str, _version: Version = None) -> Playbook | None:
    return parse_playbook(_text(path)) if path in CHILDREN else None


def _text(path: str) -> str:
    return completed(CHILDREN[path]).replace("docs/example", path)


def findings(play: str) -> list[Diagnostic]:
    return [d for d in check(completed(play), called=child)[1] if d.severity != "note"]


def outcome(play: str, *, strict: bool) -> tuple[str, str]:
    """Run a playbook. Return its status and the message of its error; that of a request that is refused, too."""
    local = LocalWiring(tools=ToolRegistry({"http": Service()}), secrets=LocalSecrets(Path("no-such-file"), {}))
    try:
        for path in CHILDREN:
            register(local.control, _text(path))
        started = local.start(StartRequest(playbook=completed(play), strict=strict))
        assert local.run(started.execution_id, timeout_s=10)
        summary: dict[str, Any] = executions.summary(local.control, started.execution_id)
        return summary["status"], (summary.get("error") or {}).get("message", "")
    except ValueError as error:  # the request is refused
        return "failed", str(error)
    finally:
        local.close()


def page() -> str:
    """Return the text of docs/language/mistakes.md."""
    lines = [HEAD, *_tables(cases()), SECOND, *_tables(cases(BY_PART))]
    return "".join(lines)


def _tables(cases: list[Case]) -> Iterator[str]:
    topic = ""
    for case in cases:
        if case.topic != topic:
            topic = case.topic
            yield f"\n## {topic[0].upper()}{topic[1:]}\n\n| mistake | found by | message |\n|---|---|---|\n"
        by = {"validate": "validate", "lint": "validate (lint)", "run": "run", "strict": "strict run"}[case.found_by]
        if case.passes:
            by += f"; a strict run completes: {case.passes}"
        words = " ".join(case.says.split()).replace("|", "\\|")
        if case.why:
            by += f": {case.why}"
        yield f"| {case.mistake} | {by} | {f'{case.code} ' if case.code else ''}{words} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
