"""Commits that are decoded when they are taken."""

from __future__ import annotations

from noetl_core.engine.records import Commit, StreamId
from noetl_core.log.stored_commits import StoredCommits

STREAM = StreamId("1", "r1")


def test_taking_a_commit_decodes_it_once_and_no_other() -> None:
    decoded: list[int] = []

    def decode(seq: int) -> Commit:
        decoded.append(seq)
        return Commit(STREAM, seq, seq, "w", ())

    found = StoredCommits([4, 5, 6, 7], decode)
    assert len(found) == 4 and found and not decoded
    assert found[-1].seq == 7 and found[-1] is found[3]
    assert decoded == [7]
    assert [c.seq for c in found[:2]] == [4, 5]
    assert next(iter(found)).seq == 4
    assert decoded == [7, 4, 5]
    assert [c.seq for c in found] == [4, 5, 6, 7]
    assert decoded == [7, 4, 5, 6]
