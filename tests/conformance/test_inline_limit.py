"""Size never changes meaning: a case gives the same with an inline limit of a few bytes (resolution 22), also when what is stored
has an outline, by which templates read parts of it. `make properties` does so with every case, the suite with a thirty-second part of them, and
with all that are about values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from zlib import crc32

import pytest

from noetl_core.values import large_json
from noetl_core.values.outlines import building
from tests.conformance.cases import Case, all_cases
from tests.conformance.wirings import limits_compared

CASES = [
    case
    for case in all_cases()
    if case.runs and ("NOETL_TIMES" in os.environ or "22-values" in str(case.file) or crc32(case.id.encode()) % 32 == 0)
]


@pytest.mark.one_in(12)
@pytest.mark.sized
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_case_gives_the_same_with_an_inline_limit_of_64_bytes_read_whole_and_in_parts(case: Case) -> None:
    wrong = limits_compared(case, _in_parts())
    assert not wrong, f"{case.file}\n" + "\n".join(wrong)


@contextmanager
def _in_parts() -> Iterator[None]:
    """All that is stored has an outline, of the smallest blocks, and is treated as large."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(building, "OUTLINED", 0)
        patched.setattr(building, "LARGE", 0)
        patched.setattr(large_json, "LARGE", 0)
        patched.setattr(building, "BLOCK", 16)
        yield
