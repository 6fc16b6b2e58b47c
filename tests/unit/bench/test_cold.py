"""Cold starts are measured in a Python of the functions' version, or the benchmark says that they are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.figures import NotMeasured
from bench.functions import cold

ROOT = Path(__file__).parents[3]
RUN = """
import sys
from pathlib import Path
from bench import run
from bench.functions import cold
from bench.figures import Figure
def missing(version): raise cold.NotMeasured("Python 3.99 is not there")
cold.interpreter = missing
run.PARTS = {"local": ("Local runner", lambda times: [Figure("chain", "ms", (1.0,), 2.0)]), "cold": run.PARTS["cold"]}
run.DOCS = Path(sys.argv[1])
run.ROOT = run.DOCS.parent
sys.exit(run.main(["--json", sys.argv[2], "--docs"]))
"""


def executable(file: Path, text: str) -> str:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def test_a_broken_interpreter_on_the_path_does_not_hide_a_working_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pyenv's shims do for versions that are not selected."""
    executable(tmp_path / "shims" / f"python{cold.runtime()}", "echo 'command not found' >&2; exit 127")
    there = executable(tmp_path / "bin" / f"python{cold.runtime()}", f"echo {cold.runtime()}")
    path = os.pathsep.join([str(tmp_path / "shims"), str(tmp_path / "bin"), os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)
    assert cold.interpreter(cold.runtime()) == there


def test_an_interpreter_that_only_uv_knows_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = executable(tmp_path / "managed" / "python", f"echo {cold.runtime()}")
    executable(tmp_path / "uv", f"echo {there}")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    executable(Path(there), "echo 3.98")
    assert cold.interpreter("3.98") == there


def test_a_missing_interpreter_is_reported_with_the_command_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match=r"uv python install 3\.99"):
        cold.interpreter("3.99")


def test_cold_starts_are_never_left_out_silently(tmp_path: Path) -> None:
    page, figures = tmp_path / "page.md", tmp_path / "bench.json"
    page.write_text("as it was")
    command = [sys.executable, "-c", RUN, str(page), str(figures)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 1, done.stderr
    assert "not measured: Cold starts of the functions" in done.stdout
    assert "Python 3.99 is not there" in done.stdout
    written = json.loads(figures.read_text())
    assert written["not_measured"] == {"cold": "Python 3.99 is not there"}
    assert [figure["name"] for figure in written["figures"]] == ["chain"]
    assert page.read_text() == "as it was", "its table would lack rows"
