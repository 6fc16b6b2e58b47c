"""Processes of the control plane that really die: the execution whose template ends them is stuck after three, and no other waits."""

from __future__ import annotations

import io
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from noetl_infra.stack import Stack
from tests import commands
from tests.commands import ENV
from tests.e2e.support import Api, aws

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]
BAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: deadly, path: deaths/deadly }
workflow:
  - step: start
    tool: { kind: noop, result: 1 }
    next: { spec: { mode: inclusive }, arcs: [{ step: end, when: "{{ event.result == 'ends the process' }}" }, { step: end }] }
  - { step: end, tool: { kind: noop } }
"""
GOOD = BAD.replace("ends the process", "goes on").replace("deadly", "harmless")
BOUND_S = 240
"""The time of four sweeps: a message that ended a process comes again after six minutes, so that sweeps make the attempts."""


def package(source: Path, deaths: Path) -> bytes:
    """Return the code of a function that dies of `BAD`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(Path(__file__).with_name("crashing_function.py"), "app.py")
        archive.write(source, "routed.py")
        archive.writestr("deaths", str(deaths))
    return packed.getvalue()


@contextmanager
def dying(stack: Stack, deaths: Path) -> Iterator[None]:
    """Let router and sweeper die of `BAD` in the block."""
    functions = aws(stack, "lambda")
    names = {name: stack.outputs[f"{name.title()}FunctionName"] for name in ("router", "sweeper")}
    sources = {name: ROOT / "functions" / name / "app.py" for name in names}
    try:
        for name, function in names.items():
            functions.update_function_code(FunctionName=function, ZipFile=package(sources[name], deaths))
        yield
    finally:
        for name, function in names.items():
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                archive.write(sources[name], "app.py")
            functions.update_function_code(FunctionName=function, ZipFile=packed.getvalue())


def test_an_execution_that_ends_the_router_is_stuck_after_three_deaths_and_no_other_waits(
    stack: Stack, api: Api, tmp_path: Path
) -> None:
    if stack.pid is None:
        pytest.skip("another endpoint runs functions where no file of this machine is")
    deaths = tmp_path / "deaths"
    with dying(stack, deaths):
        began = time.monotonic()
        started = [api.start(source) for source in (*[GOOD] * 6, BAD, *[GOOD] * 6)]
        bad = started.pop(6)
        assert {api.wait(one, BOUND_S)["status"] for one in started} == {"completed"}
        others_s = time.monotonic() - began
        summary = api.wait(bad, BOUND_S)
        assert summary["status"] == "stuck"
        assert "3 processes in a row ended while they evaluated its templates" in summary["reason"]
        died = deaths.read_text().split()
        assert len(set(died)) == len(died) == 3, "each attempt ended a process of its own"
        sys.stdout.write(f"\nothers completed after {others_s:.0f} s, stuck after {time.monotonic() - began:.0f} s\n")
        late = api.wait(api.start(GOOD), BOUND_S)
        assert late["status"] == "completed"
        done = commands.run("cancel", bad, "--on", "stack", cwd=tmp_path, env={**ENV, "NOETL_API_URL": stack.api_url}, timeout=60)
        assert done.returncode == 0, done.stderr
        assert api.wait(bad, BOUND_S, until={"cancelled"})["status"] == "cancelled"
        assert len(deaths.read_text().split()) == 3, "ending it evaluates nothing"
    assert api.run(GOOD)["status"] == "completed", "the function is as it was"
