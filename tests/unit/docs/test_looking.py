"""docs/looking.md: its console examples, one session from top to bottom, print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "looking.md").read_text()
MARK = "--- next command ---"
ENV = {k: v for k, v in os.environ.items() if k not in ("NOETL_API_URL", "NOETL_HOME", "AWS_ENDPOINT_URL")}


def examples() -> list[tuple[str, list[str]]]:
    """Commands, each with the lines shown below it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def fits(shown: list[str], printed: list[str]) -> bool:
    """Whether lines are as shown: `…` stands for anything within a line, a line `...` for any lines."""
    pattern = ""
    for line in shown:
        inside = ".*".join(re.escape(part.rstrip()) for part in line.split("…"))
        pattern += r"(?:.*\n)*?" if line == "..." else inside + r"\s*\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def test_every_example_prints_what_it_shows(tmp_path: Path) -> None:
    (source,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "shop.yaml").write_text(source)
    commands = examples()
    script = "exec 2>&1\n" + "".join(f"{command}\necho '{MARK}'\n" for command, _ in commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{ENV['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env={**ENV, "PATH": path}, capture_output=True, text=True, timeout=120, check=True
    )
    printed = done.stdout.split(f"{MARK}\n")[:-1]
    assert len(printed) == len(commands)
    for (command, shown), text in zip(commands, printed, strict=True):
        assert fits(shown, text.splitlines()), f"$ {command}\n{text}"
    assert (tmp_path / "shop.svg").read_text().startswith("<svg")
