"""A misspelt payload key or event name does not pass the type checker, neither where an event is read nor where it is made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GOOD = """\
from noetl_core.events import control, runs
from noetl_core.events.event import AnyEvent, ControlEvent, RunEvent, new

def read(event: AnyEvent) -> str:
    if event.name == "TokenParked":
        return event.data["token"]
    match event.name:
        case "TaskProcessed" | "TaskRetried":
            return event.data["task"]
    return ""

def make(more: bool) -> tuple[ControlEvent, RunEvent]:
    return new(control.TokenParked, 1, token="t"), new(runs.StepReleased, 1, reason="r")
"""
MISTAKES = {
    'if event.name == "TokenParked": print(event.data["tokn"])': 'TypedDict "TokenParked" has no key "tokn"',
    'if event.name in ("TaskProcessed", "TaskRetried"): print(event.data["tsk"])': 'TypedDict "TaskRetried" has no key "tsk"',
    'if event.name == "TokenPraked": print("never")': "Non-overlapping equality check",
    "new(control.TokenParked, 1, tokn='t')": 'Unexpected keyword argument "tokn"',
    "new(runs.StepReleased, 1)": 'Missing named argument "reason"',
    "new(runs.StepReleased, 1, reason=5)": 'has incompatible type "int"; expected "str"',
}


def checked(folder: Path, text: str) -> str:
    """Return mypy's output for a module."""
    path = folder / "snippet.py"
    path.write_text(text)
    flags = ["--config-file=", "--strict", "--follow-imports=silent", f"--cache-dir={folder}"]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "layers/noetl_core")}
    told = subprocess.run([sys.executable, "-m", "mypy", *flags, str(path)], capture_output=True, text=True, env=environment)
    assert told.returncode in (0, 1), told.stderr + told.stdout
    return told.stdout


@pytest.mark.nightly
def test_correct_spellings_pass_the_type_checker_and_each_mistake_is_reported(tmp_path: Path) -> None:
    assert "Success" in checked(tmp_path, GOOD)
    mistakes = "".join(f"def mistake{n}(event: AnyEvent) -> None:\n    {line}\n" for n, line in enumerate(MISTAKES))
    told = checked(tmp_path, GOOD + mistakes).splitlines()
    first = GOOD.count("\n") + 2
    for n, (line, message) in enumerate(MISTAKES.items()):
        assert any(f"snippet.py:{first + 2 * n}: error: " in one and message in one for one in told), (line, told)
