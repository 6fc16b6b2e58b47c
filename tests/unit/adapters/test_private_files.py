"""The files of a local store are for its owner alone: files 0600, folders 0700."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_core.adapters.local.results import FileResultStore
from noetl_core.runtime.local import LocalWiring


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def test_a_store_its_log_and_its_folders_are_for_their_owner(tmp_path: Path) -> None:
    local = LocalWiring(tmp_path / "new" / ".noetl" / "runs.db")
    local.credentials.put("api", {"token": "x"})
    FileResultStore(tmp_path / "results").put("7/a.json", b"{}")
    files = {path.name: mode(path) for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert {"runs.db", "runs.db-wal", "runs.db-shm"} <= set(files)
    assert set(files.values()) == {"0o600"}, files
    folders = {str(path.relative_to(tmp_path)): mode(path) for path in tmp_path.rglob("*") if path.is_dir()}
    assert {"new", "new/.noetl", "results", "results/7"} <= set(folders)
    assert set(folders.values()) == {"0o700"}, folders


def test_permissions_that_somebody_widened_are_kept(tmp_path: Path) -> None:
    store = tmp_path / "shared" / "runs.db"
    LocalWiring(store)
    store.chmod(0o640)
    store.parent.chmod(0o750)
    LocalWiring(store)
    assert (mode(store), mode(store.parent)) == ("0o640", "0o750")
