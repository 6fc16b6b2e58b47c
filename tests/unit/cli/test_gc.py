"""The local store forgets: rows, results and what killed processes left; and a store that is none is refused with a remedy."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_cli import main
from noetl_cli.commands.gc import gc
from noetl_core.adapters.local.results import DRAFT_S
from noetl_core.control.admit import StartRequest
from noetl_core.ports import LimitRecord, UnreadableStore
from noetl_core.runtime.local import LocalWiring

HELLO = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello, path: test/hello }
workflow: [{ step: start, tool: { kind: noop } }]
"""
OLD = 1_000_000_000.0


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalWiring]:
    wiring = LocalWiring(tmp_path / "runs.db")
    yield wiring
    wiring.close()


def ended(local: LocalWiring) -> str:
    execution_id = local.start(StartRequest(playbook=HELLO)).execution_id
    local.run(execution_id)
    local.results.put(f"{execution_id}/result", b"x" * 1000)
    return execution_id


def test_expired_executions_and_leftovers_of_killed_processes_are_removed(local: LocalWiring, tmp_path: Path) -> None:
    kept, expired = ended(local), ended(local)
    local.database.write("UPDATE heads SET expires_at=1 WHERE execution_id=?", (expired,))
    places = local.control.limits
    assert places is not None
    places.places.write(LimitRecord("used", {"h": 1}), 0)
    places.places.write(LimitRecord("unused"), 0)
    places.rates.reserve("rate", 1, 1, 1)
    results = tmp_path / "results"
    (results / "12345").mkdir()
    for name in (f"{kept}/.put-old", f"{kept}/.put-new", "12345/orphan"):
        (results / name).write_bytes(b"x")
    for name in (f"{kept}/.put-old", "12345/orphan", "12345"):
        os.utime(results / name, (OLD, OLD))
    done = {kind: count for kind, count in local.forget().items() if count}
    assert done == {"executions": 1, "limits": 1, "rates": 1, "drafts": 1, "orphaned results": 1}
    assert sorted(file.name for file in (results / kept).iterdir()) == [".put-new", "result"]
    assert not (results / expired).exists()
    assert [record.key for record in places.places.records(0)] == ["used"]
    assert local.control.load(kept).status == "completed"
    assert not any(local.forget().values()), "once"
    assert DRAFT_S >= 3600, "a writer may be slow"


def test_serving_forgets_from_time_to_time(local: LocalWiring) -> None:
    expired = ended(local)
    local.database.write("UPDATE heads SET expires_at=1")
    local.runner._serves = True
    local.runner._looked = 0
    local.runner._idle(local.clock.now())
    assert local.index.head(expired) is None


def test_gc_prints_its_removed_executions_and_freed_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "runs.db"
    wiring = LocalWiring(store)
    for _ in range(3):
        ended(wiring)
    wiring.database.write("CREATE TABLE ballast AS SELECT zeroblob(3000000) AS b")
    wiring.database.write("DROP TABLE ballast")
    wiring.close()
    gc(days=None, store=str(store), output_="text")
    assert capsys.readouterr().out.startswith("removed nothing; freed 3.0 MB: ")
    gc(days=0, store=str(store), output_="text")
    assert capsys.readouterr().out.startswith("removed 3 executions; freed ")


@pytest.mark.parametrize("spoil", ["DROP TABLE due", "ALTER TABLE due RENAME COLUMN due_at TO other"])
def test_a_store_that_is_spoilt_while_it_is_served_ends_serving(local: LocalWiring, tmp_path: Path, spoil: str) -> None:
    other = sqlite3.connect(tmp_path / "runs.db")
    other.execute(spoil)
    other.close()
    with pytest.raises(UnreadableStore):
        local.runner.serve()


def test_a_file_that_is_no_store_is_refused_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.db").write_bytes(b"no database" * 500)
    with pytest.raises(UnreadableStore) as refused:
        LocalWiring(tmp_path / "bad.db")
    assert main._other(refused.value) == 2
    message = capsys.readouterr().err
    assert "file is not a database" in message
    assert "--store" in message
