"""A gigabyte on its way takes no more memory for a larger file."""

from __future__ import annotations

import pytest
from bench.gigabyte import BATCH, batches, measure


@pytest.mark.nightly
@pytest.mark.untraced
def test_a_file_is_in_memory_nowhere_on_its_way() -> None:
    small, large = measure(2, traced=True), measure(12, traced=True)
    assert large.bytes - small.bytes > 9_000_000
    assert large.rows == batches(12_000_000) * BATCH * 9 // 10
    assert large.allocated_mb < small.allocated_mb + 6  # Python's memory; DuckDB keeps to its own limit
