"""Contract of `EventStore`."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from noetl_core.engine.records import Commit, Event, LoopProgress, Snapshot, StreamId, Tally
from noetl_core.ports import Conflict, CorruptLog, EventStore, NewerLog
from noetl_core.testing.contracts.clocks import SECOND, START, FakeClock

CONTROL = StreamId("4242")
RUN = StreamId("4242", "r0123456789abcdef01234567")
OTHER_RUN = StreamId("4242", "r0123456789abcdef0123456")  # a prefix of RUN
NOW_S = START // SECOND


def commit(stream: StreamId = CONTROL, seq: int = 0, writer: str = "alice", **fields: Any) -> Commit:
    """A commit with one event that says its position."""
    events = fields.pop("events", (Event("CtxPatched", START + seq, {"run": "r1", "patch": {"n": seq}}),))
    ts = fields.pop("ts", START + seq)
    return Commit(stream=stream, seq=seq, ts=ts, writer=writer, events=events, **fields)


def fill(store: EventStore, stream: StreamId, n: int, **fields: Any) -> list[Commit]:
    commits = [commit(stream, seq, **fields) for seq in range(n)]
    for one in commits:
        store.append(one)
    return commits


class EventStoreContract:
    """Give a fixture `store`: an empty event store."""

    def test_an_appended_commit_is_read_back(self, store: EventStore) -> None:
        record = commit(
            RUN,
            events=(
                Event("StepStarted", START, {"step": "fetch", "as_of": 3, "worker": "w"}),
                Event(
                    "TaskProcessed",
                    START + 1,
                    {"task": "t", "outcome": {"status": "ok", "result": {"ü": [1, 2.5, None, "\u2028"]}}},
                ),
                Event("StepDone", START + 2, {"result": {"ü": [1, 2.5, None, "\u2028"]}, "set_ctx": {}}),
            ),
            wake=True,
            lease_until=START + 60 * SECOND,
            expires_at=NOW_S + 3600,
            tally=Tally(4, 2, {"us": {"3": 2}, "errors": [{"kind": "http", "message": "ü", "count": 1, "first": [7]}]}),
        )
        store.append(record)
        assert list(store.read(RUN)) == [record]
        assert store.last(RUN) == record

    @pytest.mark.parametrize("progress", [LoopProgress(0, 0, 0), LoopProgress(12, 900, 17, 1_000)])
    def test_the_progress_of_a_loop_is_read_back(self, store: EventStore, progress: LoopProgress) -> None:
        written = commit(RUN, tally=Tally(4, progress=progress))
        store.append(written)
        assert list(store.read(RUN)) == [written] == [store.last(RUN)]

    def test_stored_events_share_no_data_with_writers_or_readers(self, store: EventStore) -> None:
        mine: dict[str, Any] = {"run": "r1", "patch": {"n": [1]}}
        store.append(commit(events=(Event("CtxPatched", START, mine),)))
        mine["patch"]["n"].append("the writer goes on")
        read: Any = store.read(CONTROL)[0].events[0].data
        read["patch"]["n"].append("a reader goes on")
        newest = store.last(CONTROL)
        assert newest is not None
        assert [event.data for event in newest.events] == [{"run": "r1", "patch": {"n": [1]}}]

    def test_a_stream_that_does_not_exist_is_empty(self, store: EventStore) -> None:
        assert list(store.read(CONTROL)) == []
        assert list(store.read(RUN, after=7, limit=1)) == []
        assert store.last(RUN) is None

    def test_commits_come_in_order_of_their_positions(self, store: EventStore) -> None:
        commits = fill(store, RUN, 12)
        assert list(store.read(RUN)) == commits

    def test_reading_after_a_position(self, store: EventStore) -> None:
        commits = fill(store, CONTROL, 5)
        assert list(store.read(CONTROL, after=1)) == commits[2:]
        assert list(store.read(CONTROL, after=4)) == []
        assert list(store.read(CONTROL, after=99)) == []

    @pytest.mark.parametrize("limit", [1, 2, 5, 9])
    def test_a_read_returns_at_most_limit_commits(self, store: EventStore, limit: int) -> None:
        commits = fill(store, CONTROL, 5)
        assert list(store.read(CONTROL, after=0, limit=limit)) == commits[1 : 1 + limit]

    def test_the_newest_commit(self, store: EventStore) -> None:
        commits = fill(store, RUN, 3)
        assert store.last(RUN) == commits[-1]

    def test_streams_do_not_mix(self, store: EventStore) -> None:
        streams = (CONTROL, RUN, OTHER_RUN, StreamId("424"), StreamId("42420", RUN.run_id))
        filled = {stream: fill(store, stream, n) for n, stream in enumerate(streams, start=1)}
        for stream, commits in filled.items():
            assert list(store.read(stream)) == commits
            assert store.last(stream) == commits[-1]

    def test_an_append_at_a_taken_position_conflicts_and_shows_the_existing_commit(self, store: EventStore) -> None:
        first = commit(RUN, writer="alice")
        store.append(first)
        with pytest.raises(Conflict) as refused:
            store.append(commit(RUN, writer="bob", wake=True))
        assert refused.value.existing == first
        assert list(store.read(RUN)) == [first]

    def test_the_same_writer_again_is_success_and_changes_nothing(self, store: EventStore) -> None:
        mine = commit(RUN)
        store.append(mine)
        store.append(mine)
        store.append(replace(mine, ts=mine.ts + 5))
        assert list(store.read(RUN)) == [mine]

    def test_each_position_has_one_winner_among_many_writers(self, store: EventStore) -> None:
        def write(writer: str) -> int:
            won = 0
            for seq in range(10):
                try:
                    store.append(commit(RUN, seq, writer))
                    won += 1
                except Conflict:
                    continue
            return won

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(write, ["a", "b", "c", "d"]))
        assert sum(won) == 10
        assert [c.seq for c in store.read(RUN)] == list(range(10))

    def test_a_large_commit_is_kept_whole(self, store: EventStore, large: str) -> None:
        record = commit(RUN, events=(Event("TaskProcessed", START, {"outcome": {"result": large}}),))
        store.append(record)
        store.append(record)
        assert list(store.read(RUN)) == [record]
        with pytest.raises(Conflict) as refused:
            store.append(replace(record, writer="bob"))
        assert refused.value.existing == record

    @pytest.fixture
    def large(self) -> str:
        """A megabyte that does not compress well."""
        return random.Random(7).randbytes(512 * 1024).hex()

    def test_many_commits_over_many_pages(self, store: EventStore) -> None:
        text = "x" * 1000
        commits = [commit(RUN, n, events=(Event("LoopIterationStarted", START, {"path": [n], "t": text}),)) for n in range(150)]
        for one in commits:
            store.append(one)
        assert list(store.read(RUN)) == commits
        assert list(store.read(RUN, after=99, limit=30)) == commits[100:130]

    def test_a_commit_of_a_thousand_tokens(self, store: EventStore) -> None:
        record = commit(events=tuple(Event("TokenEnqueued", START, {"token": f"t{n}", "step": "s"}) for n in range(1000)))
        store.append(record)
        assert list(store.read(CONTROL)) == [record]

    def test_there_is_no_snapshot_at_first(self, store: EventStore) -> None:
        assert store.load_snapshot("4242") is None

    def test_snapshots_stay_at_their_positions(self, store: EventStore) -> None:
        first, second, third = (
            Snapshot("4242", seq, 1, {"status": "running", "seq": seq, "ctx": {"n": [1, None]}}) for seq in (9, 20, 100)
        )
        size = store.save_snapshot(second)
        found = store.load_snapshot("4242")
        assert found == second and found.size == size
        assert size >= len('{"status":"running","seq":20,"ctx":{"n":[1,null]}}')
        store.save_snapshot(third)
        store.save_snapshot(first)
        assert store.load_snapshot("4242") == third, "the newest, in whatever order they came"
        assert store.load_snapshot("4242", upto=1_000) == third
        assert store.load_snapshot("4242", upto=100) == third
        assert store.load_snapshot("4242", upto=99) == second
        assert store.load_snapshot("4242", upto=20) == second
        assert store.load_snapshot("4242", upto=19) == first
        assert store.load_snapshot("4242", upto=8) is None
        assert store.load_snapshot("4242", upto=-1) is None
        assert store.load_snapshot("4243") is None and store.load_snapshot("424", upto=50) is None

    def test_a_snapshot_is_written_once(self, store: EventStore) -> None:
        mine = Snapshot("4242", 20, 1, {"seq": 20})
        store.save_snapshot(mine)
        store.save_snapshot(replace(mine, state={"seq": 20, "by": "another router"}))
        assert store.load_snapshot("4242") == mine

    def test_a_snapshot_of_another_reducer_takes_the_place(self, store: EventStore) -> None:
        """A deployment folds the log again: its snapshot at the same position is the one that it can read."""
        old = Snapshot("4242", 20, 1, {"seq": 20})
        store.save_snapshot(old)
        new = replace(old, reducer=2)
        store.save_snapshot(new)
        assert store.load_snapshot("4242") == new
        assert store.load_snapshot("4242", upto=50) == new
        again = Snapshot("4242", 50, 1, {"expires_at": NOW_S + 600})
        store.save_snapshot(again)
        assert store.load_snapshot("4242") == again

    def test_a_large_snapshot_is_kept_whole(self, store: EventStore, large: str) -> None:
        small, big = Snapshot("4242", 10, 1, {"ctx": {}}), Snapshot("4242", 20, 1, {"ctx": {"n": large}})
        store.save_snapshot(small)
        store.save_snapshot(big)
        assert store.load_snapshot("4242") == big
        assert store.load_snapshot("4242", upto=19) == small


class DurableLogContract(EventStoreContract):
    """The additional contract of stores that outlive a process. Define also `clock`, the store's clock."""

    def test_a_gap_is_a_corrupt_log(self, store: EventStore) -> None:
        store.append(commit(RUN, 0))
        store.append(commit(RUN, 2))
        with pytest.raises(CorruptLog, match="position 1 is missing"):
            store.read(RUN)

    def test_a_log_without_its_beginning_is_corrupt(self, store: EventStore) -> None:
        store.append(commit(RUN, 1))
        with pytest.raises(CorruptLog):
            store.read(RUN)

    def test_a_commit_for_a_newer_reader_is_refused(self, store: EventStore) -> None:
        store.append(commit(RUN, v=99))
        with pytest.raises(NewerLog, match="99"):
            list(store.read(RUN))

    def test_expired_commits_are_absent(self, store: EventStore, clock: FakeClock) -> None:
        fill(store, RUN, 3, expires_at=NOW_S + 60)
        clock.sleep(60)
        assert len(store.read(RUN)) == 3
        clock.sleep(1)
        assert list(store.read(RUN)) == []
        assert list(store.read(RUN, limit=1)) == []
        assert store.last(RUN) is None

    def test_a_new_log_takes_the_place_of_an_expired_one(self, store: EventStore, clock: FakeClock) -> None:
        fill(store, RUN, 3, expires_at=NOW_S + 60)
        clock.sleep(61)
        new = fill(store, RUN, 2, writer="bob", expires_at=NOW_S + 600)
        assert list(store.read(RUN)) == new
        assert store.last(RUN) == new[-1]
        with pytest.raises(Conflict):
            store.append(commit(RUN, 0, "carol"))

    def test_an_expired_snapshot_is_absent_and_replaced(self, store: EventStore, clock: FakeClock) -> None:
        store.save_snapshot(Snapshot("4242", 50, 1, {"expires_at": NOW_S + 60}))
        clock.sleep(61)
        assert store.load_snapshot("4242") is None
        new = Snapshot("4242", 10, 1, {"expires_at": NOW_S + 600})
        store.save_snapshot(new)
        assert store.load_snapshot("4242") == new
        assert store.load_snapshot("4242", upto=50) == new
        again = Snapshot("4242", 50, 1, {"expires_at": NOW_S + 600})
        store.save_snapshot(again)
        assert store.load_snapshot("4242") == again
