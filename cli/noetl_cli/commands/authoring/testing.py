"""Commands that test playbooks: test."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from noetl_cli.app import OutputForm, app
from noetl_cli.display import output, test_results
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_cli.options import takes
from noetl_core.values.frozen import frozen

if TYPE_CHECKING:
    from noetl_core.testing.coverage import Item
    from noetl_core.testing.files import Case
    from noetl_core.testing.mutants import Mutant
    from noetl_core.testing.suite import Result

WATCH_S: Final = 0.3
"""Seconds between two looks at the files, with --watch."""
WATCHED: Final = frozenset({".yaml", ".yml", ".py", ".sql", ".json", ".sh"})


class Results(OutputForm):
    """The form of the results of `test`, JUnit XML included, which CI shows."""

    name = "text|json|jsonl|yaml|junit"
    forms = (*OutputForm.forms, "junit")


@frozen
class TestOptions:
    """The arguments and options of `noetl test`."""

    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE...]")] = None
    only: Annotated[
        str | None, typer.Option("-k", help="Only cases whose name contains this text; | separates several", metavar="TEXT")
    ] = None
    jobs: Annotated[int, typer.Option("-j", min=1, help="Number of processes", metavar="N")] = 1
    watch: Annotated[bool, typer.Option("--watch", help="Test again after each change of a file")] = False
    coverage: Annotated[bool, typer.Option("--coverage", help="List the parts of playbooks that no case went through")] = False
    mutate: Annotated[
        bool, typer.Option("--mutate", help="Negate each condition of the playbooks, and list those that no case checks")
    ] = False
    format: Annotated[str, typer.Option("--output", "--format", click_type=Results())] = "text"


@app.command()
@takes(TestOptions)
def test(options: TestOptions) -> None:
    """Test playbooks by their test files (*.test.yaml; without FILE: all below the current folder)."""
    if not options.watch:
        _exit(run_tests(options))
        return
    seen: dict[Path, int] = {}
    while True:
        now = _times(options)
        if now != seen:
            seen = now
            try:
                run_tests(options)
            except Exit as end:
                say(end.message)
            say("waiting for changes; Ctrl-C ends")
        time.sleep(WATCH_S)


def _exit(code: int) -> None:
    if code:
        raise Exit(code)


def _times(options: TestOptions) -> dict[Path, int]:
    """Return when each file beside the test files has changed last."""
    places = {file if file.is_dir() else file.parent for file in options.files or [Path()]}
    files = (file for place in places for file in place.rglob("*") if file.suffix in WATCHED)
    return {file: file.stat().st_mtime_ns for file in files if file.is_file()}


def run_tests(options: TestOptions) -> int:
    """Run the tests once and print the results; return the exit code. Raises `Exit(2)`."""
    from noetl_core.testing.suite import run_all  # 350 ms: needed only to test

    cases = _cases(options)
    began = time.perf_counter()
    results: list[Result] = []
    dots = test_results.Dots()
    for result in run_all(cases, options.jobs):
        results.append(result)
        if options.format == "text":
            dots.add(result)
    took = time.perf_counter() - began
    failed = any(not result.passed for result in results)
    unnoticed: list[Mutant] = []
    if options.format != "text":
        mutated = _mutants(cases, results) if options.mutate and not failed else []
        unnoticed = [mutant for mutant in mutated if not mutant.noticed_by]
        if options.format == "junit":
            print(test_results.as_junit(results, took))
        else:
            data = test_results.as_data(results, took)
            if options.coverage:
                data["not_covered"] = test_results.not_covered(*_coverage(cases, results))
            if options.mutate and not failed:
                data["unnoticed"] = [{"file": each.file, "line": each.line, "negated": each.what} for each in unnoticed]
            output.as_data(data["tests"] if options.format == "jsonl" else data, options.format)
        return FAILED if failed or unnoticed else 0
    dots.end()
    test_results.print_failures(results)
    test_results.print_summary(results, took)
    test_results.print_coverage(*_coverage(cases, results), listed=options.coverage)
    if failed or not options.mutate:
        return FAILED if failed else 0
    mutated = _mutants(cases, results)
    test_results.print_mutants(mutated)
    return FAILED if any(not mutant.noticed_by for mutant in mutated) else 0


def tests_of(file: Path) -> Path:
    """Return a folder or a test file; for a playbook, the test file beside it."""
    from noetl_core.testing.files import SUFFIX  # 350 ms, as below

    if file.is_dir() or file.name.endswith((SUFFIX, ".test.yml")):
        return file
    beside = file.with_name(file.stem + SUFFIX)
    return beside if beside.exists() else file


def _cases(options: TestOptions) -> list[Case]:
    """Return the cases of all files. Raises `Exit(2)`, with everything that is wrong with them."""
    from noetl_core.dsl.reading.diagnostics import InvalidPlaybook  # 350 ms, with the next: needed only to test
    from noetl_core.testing.files import SUFFIX, BadTests, read
    from noetl_core.testing.suite import test_files

    cases: list[Case] = []
    wrong: list[str] = []
    for file in (files := test_files([tests_of(file) for file in options.files or [Path()]])):
        try:
            cases += read(file)
        except (BadTests, InvalidPlaybook) as error:
            wrong.append(str(error))
        except OSError as error:
            wrong.append(f"{file}: {error.strerror}")
    if wrong:
        raise Exit(USAGE, "\n".join(dict.fromkeys(wrong)))
    if not files:
        raise Exit(USAGE, f"there is no test file here (NAME{SUFFIX}): see docs/testing.md; `noetl record ID` writes one")
    words = [word.strip().lower() for word in re.split(r"\|", options.only or "")]
    chosen = [case for case in cases if any(word in case.id.lower() for word in words)]
    if not chosen:
        raise Exit(USAGE, f"-k {options.only}: none of {len(cases)} cases has such a name")
    return chosen


def _coverage(cases: list[Case], results: list[Result]) -> tuple[dict[str, Any], frozenset[Item]]:
    """Return the parts of the playbooks with their lines, by file, and those that a case went through."""
    from noetl_core.testing.coverage import items, lines_of  # 350 ms, as above
    from noetl_core.testing.files import models

    known: dict[str, Any] = {}
    for file in dict.fromkeys(case.playbook for case in cases):
        known[str(file)] = lines_of(file, items(models(file)[0]))
    return known, frozenset().union(*(result.covered for result in results))


def _mutants(cases: list[Case], results: list[Result]) -> list[Mutant]:
    """Negate the conditions of each playbook, and return them with the cases that notice it."""
    from noetl_core.testing.mutants import mutants  # 350 ms, as above

    found: list[Mutant] = []
    for file in dict.fromkeys(case.playbook for case in cases):
        own = [(case, result) for case, result in zip(cases, results, strict=True) if case.playbook == file]
        found += list(mutants(file, [case for case, _ in own], [result for _, result in own]))
    return found
