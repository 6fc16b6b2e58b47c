"""Runs the tests of a playbook that is edited: those in test files below the folder in which the console was started."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from noetl_console.answering import Answered, Asked, refused

ROUTE: Final = "/api/console/tests"
"""No route of the API: the console of a local store answers it."""
FOLDERS: Final = 2_000
"""The most folders that are searched."""
RUN_S: Final = 60
"""Seconds after which no further case begins."""
NAMED = re.compile(r"^\s*playbook:\s*[\"']?([^\s\"'#]+)", re.MULTILINE)
_one_at_a_time = threading.Lock()


def answer(asked: Asked, folder: Path) -> Answered:
    """Return the results of the tests of `path` in the body with the text `source`."""
    try:
        body = json.loads(asked.body)
        path, source = str(body["path"]), str(body["source"])
    except (ValueError, KeyError, TypeError):
        return refused(400, "malformed", "the body is {path, source}")
    with _one_at_a_time:
        found = results(folder, path, source)
    return Answered(200, json.dumps(found).encode(), {"Content-Type": "application/json"})


def results(folder: Path, path: str, source: str) -> dict[str, Any]:
    """Return the results of all cases that test a playbook with this path, as if its file had this text."""
    from noetl_core.dsl.reading.diagnostics import InvalidPlaybook  # 350 ms, with the next: needed only to test
    from noetl_core.testing.files import BadTests, models, read
    from noetl_core.testing.suite import run_case

    began = time.monotonic()
    files = [file for file in files_below(folder) if mentions(file, path)]
    problems: list[str] = []
    done: list[dict[str, Any]] = []
    skipped = 0
    for file in files:
        try:
            cases = [case for case in read(file) if models(case.playbook)[0].path == path]
        except (BadTests, InvalidPlaybook, OSError) as error:
            problems.append(str(error))
            continue
        for case in cases:
            if time.monotonic() - began > RUN_S:
                skipped += 1
                continue
            result = run_case(case, source)
            findings = [{"line": each.line or result.line, "text": each.text} for each in result.findings]
            place = {"file": str(file.relative_to(folder)), "line": result.line}
            done.append({"name": result.name, **place, "passed": result.passed, "findings": findings})
    if skipped:
        problems.append(f"{skipped} tests did not run: {RUN_S} s had passed. `noetl test` has no such limit.")
    took = round(time.monotonic() - began, 3)
    relative = [str(file.relative_to(folder)) for file in files]
    return {"folder": str(folder), "files": relative, "results": done, "problems": problems, "seconds": took}


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the test files below a folder, but not in hidden folders."""
    from noetl_core.testing.suite import IGNORED  # 350 ms, as above

    for number, (place, folders, files) in enumerate(os.walk(folder), 1):
        folders[:] = sorted(name for name in folders if name not in IGNORED and not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if name.endswith(".test.yaml"))
        if number >= FOLDERS:
            return


def mentions(file: Path, path: str) -> bool:
    """Return whether one of the playbooks that a test file may name has this path in its text."""
    try:
        text = file.read_text("utf-8")
        named = {file.with_name(file.name.removesuffix(".test.yaml") + ".yaml"), *(file.parent / n for n in NAMED.findall(text))}
        return any(path in each.read_text("utf-8") for each in named if each.is_file())
    except (OSError, UnicodeDecodeError):
        return False
