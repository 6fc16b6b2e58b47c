"""Each feature of the States Language ends as an imported playbook as its specification says; `tests/asl/features.yaml` has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_core.dsl.parse import check
from noetl_migrate.formatting import formatted
from tests import asl
from tests.asl import imported
from tests.asl.cases import read
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


def test_a_definition_ends_as_its_specification_says() -> None:
    wrong, texts = {}, set[str]()
    for case in read(CASES):
        found, ours = imported.run(case)
        texts |= set(found.playbooks.values())
        ended = {"Error": ours.error} if ours.status == "FAILED" else scrubbed(ours.output)
        unsupported = [each for each in found.findings if each.level == "unsupported"]
        if ended != scrubbed(case.expect) or unsupported:
            wrong[case.name] = (ended, case.expect, unsupported, ours.note)
    assert wrong == {}
    for text in texts:
        assert [each for each in check(text)[1] if each.severity == "error"] == []
        assert formatted(text) == text


@pytest.mark.nightly
def test_the_emulator_ends_the_same(tmp_path: Path) -> None:
    """Or it differs from the specification, in the cases that are known."""
    with emulator(tmp_path) as theirs:
        differing = {case.name for case in read(CASES) if differences(case, theirs.run(case), imported.run(case)[1])}
    assert differing == SPECIFICATION
