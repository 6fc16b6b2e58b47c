"""From an empty folder, with the wheel alone: the embedded stack, an execution on it, and a plugin for its workers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wheel import ROOT, built, constraints, uvx


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name in ("hello", "quantum"):
        (tmp_path / f"{name}.yaml").write_text((ROOT / "examples" / name / "playbook.yaml").read_text())
    yield tmp_path
    uvx(built(), "noetl", "down", cwd=tmp_path)


@pytest.mark.nightly
def test_the_wheel_brings_a_stack_up_runs_on_it_and_stops_it(folder: Path) -> None:
    constraints()
    wheel = built()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    plugin = str(ROOT / "plugins" / "noetl_quantum")
    up = uvx(wheel, "noetl", "up", "--port", port, "--tools", plugin, cwd=folder, extra="stack")
    assert (up.returncode, f"http://127.0.0.1:{port}" in up.stdout) == (0, True), up.stderr
    ran = uvx(wheel, "noetl", "run", "hello.yaml", "--on", "stack", cwd=folder)
    assert (ran.returncode, "greeting: Hello, world!" in ran.stdout) == (0, True), ran.stderr
    here = uvx(wheel, "noetl", "run", "quantum.yaml", cwd=folder)
    assert (here.returncode, "noetl-quantum" in here.stdout + here.stderr) == (1, True), "in the wheel the kind is not"
    there = uvx(wheel, "noetl", "run", "quantum.yaml", "--on", "stack", cwd=folder)
    assert (there.returncode, "[0, 0.25, 0.5, 1.0]" in there.stdout) == (0, True), there.stderr
    down = uvx(wheel, "noetl", "down", cwd=folder)
    assert (down.returncode, down.stdout) == (0, "stopped\n")
    assert uvx(wheel, "noetl", "status", cwd=folder).returncode == 3
