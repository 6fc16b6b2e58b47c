"""Each feature of the States Language ends as an imported playbook as its specification says; `tests/asl/features.yaml` has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_core.dsl.parse import check
from noetl_migrate.formatting import formatted
from tests import asl
from tests.asl import imported
from tests.asl.cases import Case, read
from tests.asl.compare import differences, scrubbed
from tests.asl.emulator import emulator

CASES = Path(asl.__file__).parent / "features.yaml"
SPECIFICATION = {
    "a cycle from the first state, and a variable called data: 1",
    "choice: 7",
    "distributed map: 1",
    "intrinsics: 1",
    "jsonpath: 1",
    "variables: 1",
}
"""Cases in which the emulator differs from the specification; docs/language/asl.md has the reasons."""


def by_definition() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in read(CASES):
        found.setdefault(case.name.partition(":")[0], []).append(case)
    return found


@pytest.mark.parametrize("name", by_definition())
def test_a_definition_ends_as_its_specification_says(name: str) -> None:
    cases = by_definition()[name]
    for case in cases:
        found, ours = imported.run(case)
        ended = {"Error": ours.error} if ours.status == "FAILED" else scrubbed(ours.output)
        assert (ended, [each for each in found.findings if each.level == "unsupported"]) == (scrubbed(case.expect), []), ours.note
    for text in found.playbooks.values():
        assert [each for each in check(text)[1] if each.severity == "error"] == []
        assert formatted(text) == text


@pytest.mark.nightly
def test_the_emulator_ends_the_same(tmp_path: Path) -> None:
    """Or it differs from the specification, in the cases that are known."""
    with emulator(tmp_path) as theirs:
        differing = {case.name for case in read(CASES) if differences(case, theirs.run(case), imported.run(case)[1])}
    assert differing == SPECIFICATION
