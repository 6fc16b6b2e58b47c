"""Documents pass through random machines, with cycles, as the specification says."""

from __future__ import annotations

import json
from random import Random

import pytest

from noetl_core.testing import run
from noetl_import import import_asl
from tests.asl.random_machines import Stuck, Unread, interpreted, machine

INPUT = {"a": {"c": 1}, "n": 1}


def ends(seed: int) -> str:
    """Return how a random machine ended, the same as its playbook: completed, failed, or skipped."""
    definition = machine(Random(seed))
    try:
        expected = ("completed", interpreted(definition, INPUT))
    except Stuck:
        expected = ("failed", None)
    except (Unread, TimeoutError):
        return "skipped"
    (text,) = import_asl(json.dumps(definition), "random").playbooks.values()
    played = run(text, INPUT)
    assert (played.status, played.result) == expected, f"seed {seed}: {played.error}\n{text}"
    played.close()
    return expected[0]


def test_documents_pass_as_the_specification_says() -> None:
    found = [ends(seed) for seed in range(40)]
    assert found.count("completed") >= 5
    assert found.count("failed") >= 5


@pytest.mark.nightly
def test_documents_pass_through_many_machines() -> None:
    assert [ends(seed) for seed in range(40, 600)].count("completed") >= 60
