"""Playbook files as arguments of commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches, unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from noetl_cli.errors import USAGE, Exit, say

if TYPE_CHECKING:
    from noetl_core.dsl.model import Playbook

STDIN = Path("-")
MOST_WARNINGS = 5
"""Warnings of lint that are printed of a file that is run or registered; the others are counted."""
_parsed: dict[str, Playbook] = {}
"""The text that this process has parsed last."""
_A_FILE = re.compile(r"\bpath[\"']?\s*:\s*[\"']?[\w./-]+\.ya?ml\b")
_A_PLAYBOOK = re.compile(r"^kind:\s*[\"']?Playbook\b", re.MULTILINE)


def read(file: Path) -> str:
    """Return the text of a file, or of standard input for `-`. Raises `Exit(2)`."""
    try:
        return sys.stdin.buffer.read().decode() if file == STDIN else file.read_text("utf-8")
    except FileNotFoundError:
        near = get_close_matches(file.name, [f.name for f in file.parent.glob("*")], n=1) if file.parent.is_dir() else []
        raise Exit(USAGE, f"{file}: there is no such file" + (f" (did you mean {near[0]}?)" if near else "")) from None
    except UnicodeDecodeError as error:
        raise Exit(USAGE, f"{file}: not text in UTF-8 (byte {error.start + 1} is {error.object[error.start]:#04x})") from None
    except OSError as error:
        raise Exit(USAGE, f"{file}: {error.strerror}") from None


def playbook(file: Path) -> str:
    """Return the text of a playbook to be run, registered or checked: with its scripts included, and with the paths of playbooks
    that it calls by their files. Raises `Exit(2)`."""
    text = read(file)
    if file.name.endswith(".test.yaml") and not _A_PLAYBOOK.search(text):
        raise Exit(USAGE, f"{file} is a test file, not a playbook: run noetl test {file}")
    text = with_paths(text, file)
    if "script" not in text:
        return text
    from noetl_core.playbooks.script_files import UnreadableScript, with_scripts  # 250 ms: needed only with scripts

    try:
        return with_scripts(text, Path() if file == STDIN else file.parent)
    except UnreadableScript as error:
        raise Exit(USAGE, f"{file}: {error}") from None


def with_paths(text: str, file: Path) -> str:
    """Return the text of a file with the paths of playbooks that it calls by their files."""
    if file == STDIN or not _A_FILE.search(text):
        return text
    from noetl_core.playbooks.called_files import with_paths  # 250 ms: needed only to read a playbook that calls others

    return with_paths(text, file)


def playbooks(files: Iterable[Path]) -> list[Path]:
    """Return the given files; for a folder, every .yaml and .yml file below it that contains `kind: Playbook`. Raises
    `Exit(2)`."""
    found: list[Path] = []
    for file in files:
        if not file.is_dir():
            found.append(file)
            continue
        below = sorted(f for f in file.rglob("*.y*ml") if f.suffix in (".yaml", ".yml") and _A_PLAYBOOK.search(read(f)))
        if not below:
            raise Exit(USAGE, f"{file}: no playbook in this folder (a .yaml file with `kind: Playbook`)")
        found += below
    return found


def check(source: str, file: Path) -> Playbook:
    """Return the playbook; tasks of other playbooks that it uses may exist only in a catalog. Raises `InvalidPlaybook`."""
    from noetl_core.dsl.parse import parse_playbook  # 250 ms: needed only to read a playbook

    return _keep(source, parse_playbook(source, str(file), lenient=True))


def parsed(source: str) -> Playbook | None:
    """Return the playbook of a text if this process has parsed it last, and it uses no tasks of other playbooks, which a catalog
    may have."""
    return _parsed.get(source)


def _keep(source: str, playbook: Playbook) -> Playbook:
    from noetl_core.dsl.sections.workbook_uses import uses  # 250 ms, as above: the parser has loaded it

    _parsed.clear()
    if not uses(source):
        _parsed[source] = playbook
    return playbook


def checked(source: str, file: Path, *, quiet: bool = False) -> Playbook:
    """Like `check`, and print the first warnings of lint unless `quiet`. Raises `InvalidPlaybook`."""
    if quiet:
        return check(source, file)
    from noetl_core.dsl.parse import check as linted  # 250 ms, as above, and 20 ms for lint
    from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
    from noetl_core.playbooks.called_files import reader

    playbook, found = linted(source, str(file), lenient=True, called=None if file == STDIN else reader(file))
    if playbook is None:
        raise InvalidPlaybook(found)
    warnings = [d for d in found if d.severity == "warning"]
    for warning in warnings[:MOST_WARNINGS]:
        say(f"warning: {warning}")
    if (more := len(warnings) - MOST_WARNINGS) > 0:
        say(f"... and {more} more warning{'s' if more > 1 else ''}: noetl validate {file}")
    return _keep(source, playbook)


def with_libraries(source: str, file: Path) -> str:
    """Return the text of a file with the shared tasks of playbooks in its folder pinned. Raises `Exit(2)`."""
    from noetl_core.playbooks.called_files import SamePath, with_libraries  # 250 ms, as above

    if file == STDIN:
        return source
    try:
        return with_libraries(source, file)
    except SamePath as error:
        raise Exit(USAGE, str(error)) from None


def difference(file: Path, before: str, after: str, how: str) -> str:
    """Return the differences between two texts of a file; `how` describes the origin of the second."""
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), str(file), f"{file} ({how})")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def replace(file: Path, text: str) -> None:
    """Replace the text of a file atomically. Raises `Exit(2)`."""
    target = file.resolve()
    beside = target.with_name(f".{target.name}.new")
    try:
        ends = "\r\n" if b"\r\n" in target.read_bytes() else "\n"
        beside.write_text(text, "utf-8", newline=ends)
        beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise Exit(USAGE, f"{file}: {error}") from None
