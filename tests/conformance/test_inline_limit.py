"""Size never changes meaning: every case gives the same with an inline limit of a few bytes (resolution 22), also when what is stored
has an outline, by which templates read parts of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from noetl_core.outlines import building
from tests.conformance.cases import Case, all_cases
from tests.conformance.wirings import limits_compared


@pytest.mark.parametrize("case", [c for c in all_cases() if c.runs], ids=lambda case: case.id)
def test_the_case_gives_the_same_with_an_inline_limit_of_64_bytes_read_whole_and_in_parts(case: Case) -> None:
    wrong = limits_compared(case, _in_parts())
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)


@contextmanager
def _in_parts() -> Iterator[None]:
    """All that is stored has an outline, of the smallest blocks."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(building, "OUTLINED", 0)
        patched.setattr(building, "BLOCK", 16)
        yield
