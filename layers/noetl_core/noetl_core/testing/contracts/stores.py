"""Contracts of `ResultStore`, `Secrets` and `CommandQueue`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from noetl_core.engine.records import Command
from noetl_core.ports import CommandQueue, CorruptLog, NotFound, ResultStore, Sealer, Secrets, TooLarge
from noetl_core.values.result_refs import Altered
from noetl_core.values.result_streams import pieces


class ResultStoreContract:
    """Give a fixture `results`: an empty result store."""

    def test_an_object_is_read_back_and_described_by_its_reference(self, results: ResultStore) -> None:
        body = '{"a": "ü"}'.encode()
        reference = results.put("7/results/r1.json", body)
        assert dict(reference) == {
            "kind": "result_ref",
            "store": "s3",
            "key": "7/results/r1.json",
            "size": len(body),
            "checksum": "sha256:" + sha256(body).hexdigest(),
        }
        assert results.get("7/results/r1.json") == body

    def test_putting_again_changes_nothing(self, results: ResultStore) -> None:
        first = results.put("7/a", b"same", "text/plain")
        assert results.put("7/a", b"same", "text/plain") == first
        assert results.get("7/a") == b"same"

    @pytest.mark.parametrize("body", [b"", b"\x00\xff\x78\x9c" * 3, b"x" * 3_000_000], ids=["empty", "binary", "large"])
    def test_any_bytes(self, results: ResultStore, body: bytes) -> None:
        results.put("7/any", body, "application/octet-stream")
        assert results.get("7/any") == body

    @pytest.mark.parametrize(
        ("start", "end", "part"),
        [(2, 5, b"234"), (None, 3, b"012"), (7, None, b"789"), (8, 99, b"89"), (4, 4, b""), (10, 12, b""), (0, 1, b"0")],
    )
    def test_a_part_of_an_object(self, results: ResultStore, start: int | None, end: int | None, part: bytes) -> None:
        results.put("7/digits", b"0123456789")
        assert results.get("7/digits", start, end) == part

    def test_a_missing_object_raises_not_found(self, results: ResultStore) -> None:
        results.put("7/a", b"1")
        for key in ("7/b", "7", "7/a/b", "8/a"):
            with pytest.raises(NotFound):
                results.get(key)

    def test_keys_with_unusual_characters(self, results: ResultStore) -> None:
        for key in ("7/größe 1+2&3=%20?.json", "7/a#b", "7/.hidden"):
            results.put(key, key.encode())
            assert results.get(key) == key.encode()

    def test_a_key_that_is_too_long(self, results: ResultStore) -> None:
        with pytest.raises(TooLarge):
            results.put("7/" + "/".join(["x" * 99] * 20), b"x")

    @pytest.mark.parametrize("size", [0, 1, 3_000_000, 16 * 1024 * 1024, 40_000_001])
    def test_an_object_written_in_pieces_equals_one_that_is_put(self, results: ResultStore, size: int) -> None:
        body = bytes(range(251)) * (size // 251 + 1)
        body = body[:size]
        with results.writer("7/streamed", "application/octet-stream") as out:
            for start in range(0, size, 1_000_003):
                out.write(body[start : start + 1_000_003])
            reference = out.finish()
        assert reference == {**results.put("7/put", body), "key": "7/streamed"}
        assert b"".join(pieces(results, reference)) == body
        assert [len(piece) for piece in pieces(results, reference, 15_000_000)][:-1] == [15_000_000] * (
            (size - 1) // 15_000_000 if size else 0
        )

    @pytest.mark.parametrize("size", [5, 20_000_000])
    def test_an_object_that_is_not_finished_is_not_there(self, results: ResultStore, size: int) -> None:
        results.put("7/kept", b"before")
        for key in ("7/none", "7/kept"):
            with pytest.raises(ZeroDivisionError), results.writer(key) as out:
                out.write(b"x" * size)
                raise ZeroDivisionError
        with results.writer("7/none") as out:
            out.write(b"x" * size)
        with pytest.raises(NotFound):
            results.get("7/none")
        assert results.get("7/kept") == b"before"

    def test_reading_pieces_of_an_overwritten_object_raises_altered(self, results: ResultStore) -> None:
        reference = results.put("7/a", b"0123456789")
        results.put("7/a", b"012345678X")
        with pytest.raises(Altered, match="7/a"):
            list(pieces(results, reference, 4))

    def test_the_url_of_an_object_ends_with_its_key(self, results: ResultStore) -> None:
        results.put("7/a.parquet", b"PAR1")
        assert results.url("7/a.parquet").endswith("7/a.parquet")


class SealerContract:
    """Give fixtures `sealer` and `another`, one with another key."""

    WHERE: Mapping[str, str] = {"execution_id": "7", "run_id": "r1"}

    @pytest.mark.parametrize(
        "plain", [b"", b"hunter2", b"\x00\xff" * 5_000, "ü".encode()], ids=["empty", "text", "large", "utf-8"]
    )
    def test_a_sealed_value_opens_again(self, sealer: Sealer, plain: bytes) -> None:
        assert sealer.open(sealer.seal(plain, self.WHERE), self.WHERE) == plain

    def test_it_gives_nothing_away(self, sealer: Sealer) -> None:
        first, second = (sealer.seal(b"hunter2", self.WHERE) for _ in range(2))
        assert first != second, "not even that it is the same"
        for text in (b"hunter2", b"hunter2"[::-1], b64encode(b"hunter2")[:8], b"hunter2".hex().encode()):
            assert text not in first.encode()
        assert first.isascii()
        assert first.isprintable()

    @pytest.mark.parametrize("where", [{"execution_id": "8", "run_id": "r1"}, {"execution_id": "7", "run_id": "r2"}, {}], ids=str)
    def test_it_opens_in_its_own_place_only(self, sealer: Sealer, where: Mapping[str, str]) -> None:
        with pytest.raises(CorruptLog):
            sealer.open(sealer.seal(b"hunter2", self.WHERE), where)

    def test_another_key_does_not_open_it(self, sealer: Sealer, another: Sealer) -> None:
        with pytest.raises(CorruptLog):
            another.open(sealer.seal(b"hunter2", self.WHERE), self.WHERE)

    def test_a_sealed_value_that_was_altered_does_not_open(self, sealer: Sealer) -> None:
        sealed = sealer.seal(b"hunter2", self.WHERE)
        place = len(sealed) - 6
        changed = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
        for text in (changed, sealed[:-8], sealed[8:], "", "{}", "[1]", "no base64!", '{"key": "AAAA", "box": "AAAA"}'):
            with pytest.raises(CorruptLog):
                sealer.open(text, self.WHERE)


class SecretsContract:
    """Give a fixture `secrets`: an empty credential store."""

    PG: Mapping[str, Any] = {"type": "postgres", "data": {"password": "größer\n", "port": 5432}}

    def test_a_credential_is_read_back_and_replaced(self, secrets: Secrets) -> None:
        secrets.put("pg.main", self.PG)
        assert dict(secrets.get("pg.main")) == self.PG
        secrets.put("pg.main", {"type": "other"})
        assert dict(secrets.get("pg.main")) == {"type": "other"}

    def test_reading_a_missing_credential_raises_not_found_and_deleting_it_does_not(self, secrets: Secrets) -> None:
        with pytest.raises(NotFound, match="pg"):
            secrets.get("pg.main")
        secrets.delete("pg.main")

    def test_a_deleted_credential_is_gone_and_can_be_made_again(self, secrets: Secrets) -> None:
        secrets.put("pg.main", self.PG)
        secrets.delete("pg.main")
        with pytest.raises(NotFound):
            secrets.get("pg.main")
        assert list(secrets.names()) == []
        secrets.delete("pg.main")
        secrets.put("pg.main", {"type": "new"})
        assert dict(secrets.get("pg.main")) == {"type": "new"}
        assert list(secrets.names()) == ["pg.main"]

    def test_names(self, secrets: Secrets) -> None:
        assert list(secrets.names()) == []
        for name in ("b", "a.x", "a"):
            secrets.put(name, self.PG)
        assert list(secrets.names()) == ["a", "a.x", "b"]


def command(n: int = 0, **fields: Any) -> Command:
    """A command as the control plane makes it."""
    known: dict[str, Any] = {
        "execution_id": "7",
        "run_id": f"r{n}",
        "step": "fetch",
        "expected_seq": 0,
        "mode": "first",
        "as_of": n,
        "digest": "sha256:1",
        "context": {"workload": {"ü": "\U0001f680 \uffff \ud800 \x00"}, "ctx": {}, "args": {"n": n}, "steps": {}},
        "expires_at": 1_900_000_000,
    }
    return Command(**{**known, **fields})


Receive = Callable[[str], Sequence[Command]]
"""Takes every visible command of a pool."""


class CommandQueueContract:
    """Give fixtures `queue`: an empty queue with the pools `default` and `python`, and `receive`, taking what a pool has."""

    def test_commands_reach_their_pool_as_they_were_sent(self, queue: CommandQueue, receive: Receive) -> None:
        resumed = command(
            1,
            mode="resume",
            expected_seq=3,
            mail=({"wait_id": "w1", "kind": "timer", "data": None},),
            chunk=2,
            loop={"run": "r0"},
        )
        elsewhere = command(2, pool="python")
        assert list(queue.send([command(), resumed, elsewhere])) == []
        assert sorted(receive("default"), key=lambda c: c.run_id) == [command(), resumed]
        assert list(receive("python")) == [elsewhere]

    def test_many_commands(self, queue: CommandQueue, receive: Receive) -> None:
        sent = [command(n) for n in range(37)]
        assert list(queue.send(sent)) == []
        assert sorted(receive("default"), key=lambda c: c.as_of) == sent

    def test_large_commands_arrive_with_or_without_their_context(self, queue: CommandQueue, receive: Receive) -> None:
        sent = [command(n, context={"workload": {"text": "x" * 180_000}}) for n in range(12)]
        sent.append(command(12, context={"workload": {"text": "ü" * 600_000}}))
        assert list(queue.send(sent)) == []
        arrived = sorted(receive("default"), key=lambda c: c.as_of)
        assert [replace(c, context=None) for c in arrived] == [replace(c, context=None) for c in sent]
        assert all(c.context is None or c.context == sent[c.as_of].context for c in arrived)
        assert arrived[0].context is not None

    def test_large_mail_arrives(self, queue: CommandQueue, receive: Receive) -> None:
        sent = [command(n, mode="resume", mail=({"wait_id": "w", "data": "ü" * 900_000},), context=None) for n in range(3)]
        assert list(queue.send(sent)) == []
        assert sorted(receive("default"), key=lambda c: c.as_of) == sent

    def test_nothing_to_send(self, queue: CommandQueue, receive: Receive) -> None:
        assert list(queue.send([])) == []
        assert list(receive("default")) == []

    def test_the_depth_of_a_pool(self, queue: CommandQueue) -> None:
        assert queue.depth("default") == 0
        queue.send([command(n) for n in range(3)] + [command(9, pool="python")])
        assert (queue.depth("default"), queue.depth("python")) == (3, 1)

    def test_a_delayed_command_is_not_visible_yet(self, queue: CommandQueue, receive: Receive) -> None:
        queue.send([command()], delay_s=900)
        assert list(receive("default")) == []
