"""Runs the cases of test files, one after the other or in several processes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from noetl_core.control.refusals import refusal
from noetl_core.testing import coverage
from noetl_core.testing.coverage import Item
from noetl_core.testing.files import SUFFIX, Case, read
from noetl_core.testing.judge import Finding, judge, judge_refusal
from noetl_core.testing.play import play

IGNORED: Final = frozenset({"node_modules", "__pycache__"})
"""Folders without test files, beside hidden ones."""


@dataclass(frozen=True)
class Result:
    """The result of one case. `seconds` is virtual time, `duration_s` real time."""

    name: str
    file: str
    line: int
    findings: tuple[Finding, ...]
    path: tuple[str, ...]
    seconds: float
    duration_s: float
    covered: frozenset[Item] = frozenset()
    work: int = 0
    """The work that it did (`play.Played.work`)."""

    @property
    def passed(self) -> bool:
        return not self.findings


def test_files(places: Iterable[Path]) -> list[Path]:
    """Return the given files; for a folder, every test file below it."""
    found: list[Path] = []
    for place in places:
        if place.is_dir():
            below = (file for file in place.rglob(f"*{SUFFIX}") if not _is_ignored(file.relative_to(place)))
            found += sorted(below)
        else:
            found.append(place)
    return list(dict.fromkeys(found))


test_files.__test__ = False  # type: ignore[attr-defined]  # pytest: it is no test


def _is_ignored(file: Path) -> bool:
    return any(part in IGNORED or part.startswith(".") for part in file.parts[:-1])


def run_case(case: Case, text: str | None = None, limit: int | None = None) -> Result:
    """Run a case; `text` replaces the playbook's text, and `limit` bounds the work."""
    began = time.perf_counter()
    scene = replace(case.scene, text=text, limit=limit)
    try:
        played = play(scene)
    except Exception as error:  # refusals become results; bugs are raised again
        message = refused(error)
        took = time.perf_counter() - began
        return Result(case.name, str(case.file), case.line, tuple(judge_refusal(case, message)), (), 0.0, took)
    try:
        findings = tuple(judge(case, played))
        went = frozenset(coverage.covered(played)) if text is None else frozenset()
        path, work = tuple(played.path), played.work
    finally:
        played.close()
    took = time.perf_counter() - began
    return Result(case.name, str(case.file), case.line, findings, path, played.seconds, took, went, work)


def refused(error: Exception) -> str:
    """Return the message of a refused start. Raises the error if it is a bug."""
    status, body = refusal(error, "")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise error
    return body["error"]["message"]


def run_all(cases: Sequence[Case], processes: int = 1) -> Iterator[Result]:
    """Yield the result of each case, in order."""
    if processes <= 1 or len(cases) < 2:
        yield from map(run_case, cases)
        return
    names = [(case.file, case.name) for case in cases]
    with ProcessPoolExecutor(min(processes, len(cases)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_run_test, names)


def _run_test(test: tuple[Path, str]) -> Result:
    """Run the case of that name, in a process that has not read it."""
    file, name = test
    return run_case(next(case for case in read(file) if case.name == name))
