"""Console examples of a page, carried out as one session from top to bottom."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.commands import ENV, on_path

MARK = "--- next command ---"
PROGRESS = re.compile(r"\[ *(?:\d+\.\d|…) s\] ")
"""Begins a line of progress. A command prints such lines only while it takes longer than 0.3 s, as on a busy machine."""


def examples(page: str) -> list[tuple[str, list[str]]]:
    """Commands of the page, each with the lines shown below it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def fits(shown: list[str], printed: list[str]) -> bool:
    """Return whether lines are as in the page: `…` stands for anything within a line, a line `...` for any lines."""
    pattern = ""
    for line in shown:
        inside = ".*".join(re.escape(part.rstrip()) for part in line.split("…"))
        pattern += r"(?:.*\n)*?" if line == "..." else inside + r"\s*\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def shell(script: str, folder: Path) -> str:
    """Return the output of a script of bash, in which `noetl` is a forked one and `python` the one that runs the tests."""
    with on_path() as commands:
        path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), ENV["PATH"]])
        return subprocess.run(
            ["bash", "-c", script], cwd=folder, env={**ENV, "PATH": path}, capture_output=True, text=True, timeout=240, check=True
        ).stdout


def check_session(page: str, folder: Path) -> None:
    """Carry out the console examples of a page in a folder; fail where one prints other than the page shows."""
    commands = examples(page)
    script = "exec 2>&1\n" + "".join(f"{command}\necho '{MARK}'\n" for command, _ in commands)
    printed = shell(script, folder).split(f"{MARK}\n")[:-1]
    assert len(printed) == len(commands)
    for (command, shown), text in zip(commands, printed, strict=True):
        lines = text.splitlines()
        if not any(PROGRESS.match(line) for line in shown):
            lines = [line for line in lines if not PROGRESS.match(line)]
        assert fits(shown, lines), f"$ {command}\n{text}"


def write_files(page: str, folder: Path) -> None:
    """Write the files that the page shows: blocks after a comment `<!-- file: NAME -->`."""
    for name, text in re.findall(r"<!-- file: ([\w./-]+) -->\n+```\w+\n(.*?)```", page, re.DOTALL):
        (folder / name).write_text(text)
