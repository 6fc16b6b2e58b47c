"""Three loops and pagination on the stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.ledger import ledger
from tests.e2e.support import Api
from tests.nesting import PLAYBOOK, check


@pytest.mark.nightly
def test_three_loops_and_pages_on_the_stack(api: Api, tmp_path: Path) -> None:
    with ledger(tmp_path / "calls") as book:
        summary = api.run(PLAYBOOK, {"url": book.url})
        assert summary["status"] == "completed", summary["error"]
        check(summary["result"], book)
