"""Prints the results of tests: for people, as JSON, and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from noetl_cli.terminal import visible

if TYPE_CHECKING:
    from noetl_core.testing.coverage import Item
    from noetl_core.testing.mutants import Mutant
    from noetl_core.testing.suite import Result

WIDTH: Final = 72
"""Characters of a line of dots."""


class Dots:
    """Prints a line for each file: its name, and a dot or F for each case."""

    def __init__(self) -> None:
        self._file = ""
        self._printed = 0

    def add(self, result: Result) -> None:
        if result.file != self._file or self._printed >= WIDTH:
            print("\n" * bool(self._file) + f"{visible(result.file)} ", end="")
            self._file, self._printed = result.file, 0
        print("." if result.passed else "F", end="", flush=True)
        self._printed += 1

    def end(self) -> None:
        if self._file:
            print()


def print_failures(results: Iterable[Result]) -> None:
    """Print the failures: each difference with its line, and the path."""
    for result in results:
        if result.passed:
            continue
        print(f"\nFAILED {visible(result.file)}:{result.line} {visible(result.name)}")
        for finding in result.findings:
            text = visible(finding.text).replace("\\n", "\n")
            print(f"  {visible(result.file)}:{finding.line or result.line}: {text}")
        print(f"  path: {', '.join(result.path) or 'no step'} ({span(result.seconds)})")


def span(seconds: float) -> str:
    """Return virtual time in words."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit} of virtual time"
    return f"{seconds:.3g} s of virtual time"


def print_summary(results: Sequence[Result], duration_s: float) -> None:
    failed = sum(not result.passed for result in results)
    counts = {"failed": failed, "passed": len(results) - failed}
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    print(f"\n{', '.join(parts)} in {duration_s:.2f} s")


def print_coverage(known: Mapping[str, Mapping[Item, int]], went: frozenset[Item], *, listed: bool) -> None:
    """Print how much of each kind of part was covered and, with `listed`, the other parts, by file and line."""
    counts: dict[str, list[int]] = {}
    for items in known.values():
        for item in items:
            count = counts.setdefault(item.kind, [0, 0])
            count[0] += item in went
            count[1] += 1
    print("coverage: " + ", ".join(f"{kind} {got}/{of}" for kind, (got, of) in counts.items()))
    for part in not_covered(known, went) if listed else ():
        print(f"  {visible(part['file'])}:{part['line']}: not covered: {visible(part['name'])}")


def not_covered(known: Mapping[str, Mapping[Item, int]], went: frozenset[Item]) -> list[dict[str, Any]]:
    """Return the parts that no case went through."""
    parts = ((file, item, line) for file, items in known.items() for item, line in items.items())
    return [{"file": file, "line": line, "name": item.name} for file, item, line in parts if item not in went]


def print_mutants(mutants: Sequence[Mutant]) -> None:
    """Print the mutants that no test noticed."""
    unnoticed = [mutant for mutant in mutants if not mutant.noticed_by]
    print(f"mutants: {len(mutants) - len(unnoticed)} of {len(mutants)} noticed")
    for mutant in unnoticed:
        print(f"  {visible(mutant.file)}:{mutant.line}: no test notices the negation of {visible(mutant.what)}")


def as_data(results: Sequence[Result], duration_s: float) -> dict[str, Any]:
    """Return the results as JSON data."""
    return {
        "tests": [
            {
                "name": result.name,
                "file": result.file,
                "line": result.line,
                "passed": result.passed,
                "findings": [{"line": finding.line or result.line, "message": finding.text} for finding in result.findings],
                "path": list(result.path),
                "virtual_seconds": result.seconds,
                "duration_s": round(result.duration_s, 4),
            }
            for result in results
        ],
        "passed": sum(result.passed for result in results),
        "failed": sum(not result.passed for result in results),
        "duration_s": round(duration_s, 3),
    }


def as_junit(results: Sequence[Result], duration_s: float) -> str:
    """Return the results as JUnit XML, a suite for each file."""
    from xml.etree import ElementTree  # 8 ms: needed only for this form

    root = ElementTree.Element("testsuites", time=f"{duration_s:.3f}")
    for file in dict.fromkeys(result.file for result in results):
        own = [result for result in results if result.file == file]
        failed = sum(not result.passed for result in own)
        time = f"{sum(result.duration_s for result in own):.3f}"
        suite = ElementTree.SubElement(
            root, "testsuite", name=file, tests=str(len(own)), failures=str(failed), errors="0", skipped="0", time=time
        )
        for result in own:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=Path(file).name.removesuffix(".yaml").replace(".", "_"),
                name=result.name,
                file=file,
                line=str(result.line),
                time=f"{result.duration_s:.3f}",
            )
            if not result.passed:
                text = "\n".join(f"{file}:{finding.line or result.line}: {finding.text}" for finding in result.findings)
                failure = ElementTree.SubElement(case, "failure", message=result.findings[0].text.splitlines()[0])
                failure.text = text
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode")
