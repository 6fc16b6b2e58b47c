"""The tests of the examples, and of the templates of `noetl new`, pass, go through all parts of their playbooks, and notice each negated
condition."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_core.testing.coverage import items
from noetl_core.testing.files import models, read
from noetl_core.testing.mutants import mutants
from noetl_core.testing.suite import run_case
from noetl_core.testing.suite import test_files as found_files

ROOT = Path(__file__).parents[3]
FILES = found_files([ROOT / "examples"])
TEMPLATES = found_files([ROOT / "cli" / "noetl_cli" / "templates"])


def test_examples_have_tests() -> None:
    assert len(FILES) >= 6


@pytest.mark.one_in(4)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_the_tests_of_an_example_are_complete(file: Path) -> None:
    is_complete(file)


@pytest.mark.nightly
@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.parent.name)
def test_the_tests_of_a_template_are_complete(file: Path) -> None:
    is_complete(file)


def is_complete(file: Path) -> None:
    cases = read(file)
    results = [run_case(case) for case in cases]
    assert [finding for result in results for finding in result.findings] == []
    playbook = cases[0].playbook
    went = frozenset().union(*(result.covered for result in results))
    assert [item.name for item in items(models(playbook)[0]) if item not in went] == []
    assert [str(mutant) for mutant in mutants(playbook, cases, results) if not mutant.noticed_by] == []
