"""Three loops and pagination in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.log.stored_values import Values
from noetl_core.runtime.local import LocalWiring
from tests.e2e.ledger import ledger
from tests.nesting import PLAYBOOK, check


@pytest.mark.nightly
def test_three_loops_and_pages_in_one_process(tmp_path: Path) -> None:
    local = LocalWiring(tmp_path / "store.db")
    try:
        with ledger(tmp_path / "calls") as book:
            started = local.start(StartRequest(playbook=PLAYBOOK, payload={"url": book.url}))
            assert local.run(started.execution_id, timeout_s=60)
            state = local.control.load(started.execution_id)
            assert state.status == "completed", state.failure
            check(Values(local.store, local.results, started.execution_id).at(state.result), book)
    finally:
        local.close()
