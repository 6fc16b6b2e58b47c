"""A small sample of `make fuzz`, which makes thousands of calls of everything that templates can call."""

from __future__ import annotations

import sys

import pytest

from noetl_core.expr import LimitExceeded
from tests.fuzz.cases import sample, subjects
from tests.fuzz.process import call
from tests.unit.expr.attacks import attempt

CALLS = sample(1, 21)
NAMED = "{{ ('%(a)s' * 1000) % {'a': t} }}"


def test_every_subject_has_calls() -> None:
    assert [case.subject for case in CALLS] == subjects()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_call_kills_its_process_or_takes_much_memory() -> None:
    found = {case.template: call(case.template) for case in CALLS[::10]}
    assert {template: took for template, took in found.items() if took.died or took.megabytes > 100} == {}


@pytest.mark.parametrize(
    "template",
    [
        NAMED,
        "{{ '%(a)s%(a)r' % {'a': t * 3} }}",
        "{{ (t ~ t ~ t ~ t ~ t ~ t ~ t) ~ '😀' }}",
        "{{ zip(t, t, t, t, t, t, t, t, t, t) }}",
        "{{ ('ab ' * 1000000) | striptags }}",
        "{{ (('😀' * 3000000) | list) | length }}",
    ],
)
def test_memory_is_charged_before_it_is_taken(template: str) -> None:
    with pytest.raises(LimitExceeded, match="characters of text and data"):
        attempt(template, t="a" * 2_000_000)
