"""The worker's side of a runner's socket, against a process that answers as it likes: no frame holds the worker beyond the deadline
or a cancellation, and no frame is taken for the answer to a later task."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from typing import Any, cast

import pytest

from noetl_core.tools.sandbox.pool import Cancelled, Died, Expired, ForkServer, Runner
from noetl_core.tools.sandbox.runner import receive

NEVER = threading.Event()
LARGE = {"args": {"text": "x" * 20_000_000}}
ANSWER = b'{"ok": true, "result": 1, "retire": false}'


def frame(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">cI", kind, len(body)) + body


class Peer:
    """Stands for the fork server and for the process of a runner, whose end of the socket is `sock`."""

    def __init__(self) -> None:
        ours, self.sock = socket.socketpair()
        read, self._write = os.pipe()
        self._fork_result = (1, "/nonexistent", ours, FileIO(read))
        self._acting: threading.Thread | None = None

    def fork(self, surroundings: Any) -> tuple[int, str, socket.socket, FileIO]:
        return self._fork_result

    def end(self, pid: int, grace: float) -> tuple[int, bool]:
        self.sock.shutdown(socket.SHUT_RDWR)
        return 9, True

    def runner(self) -> Runner:
        config = dict.fromkeys(("sockets", "or_open", "addresses", "packages", "engine", "landlock"), "")
        return Runner(cast("ForkServer", self), ("execution", "code"), {**config, "max_result": 1000})

    def then(self, act: Callable[[socket.socket], object]) -> Runner:
        """Return a runner whose process acts, in another thread, when it has read its settings."""

        def work() -> None:
            with suppress(OSError):
                receive(self.sock)
                act(self.sock)

        self._acting = threading.Thread(target=work)
        self._acting.start()
        return self.runner()

    def close(self) -> None:
        for each in (*self._fork_result[2:], self.sock):
            each.close()
        os.close(self._write)
        if self._acting is not None:
            self._acting.join(20)


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def answers(*frames: bytes) -> Callable[[socket.socket], None]:
    """Read a task, then send these frames at once."""

    def act(sock: socket.socket) -> None:
        receive(sock)
        sock.sendall(b"".join(frames))

    return act


def drips(sock: socket.socket) -> None:
    """Read so little at a time that each send ends, and the whole never does."""
    while sock.recv(1 << 14):
        time.sleep(0.05)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_process_that_reads_slowly_does_not_hold_the_worker(peer: Peer, cancelled: bool) -> None:
    runner, stop = peer.then(drips), threading.Event()
    if cancelled:
        threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Cancelled if cancelled else Expired):
        runner.run(LARGE, began + (60 if cancelled else 0.3), stop, print)
    assert time.monotonic() - began < 5
    runner.close()


def test_an_answer_in_pieces_of_a_byte_is_an_answer(peer: Peer) -> None:
    def act(sock: socket.socket) -> None:
        receive(sock)
        for byte in frame(b"O", b"one") + frame(b"R", ANSWER):
            sock.sendall(bytes([byte]))

    runner = peer.then(act)
    lines: list[str] = []
    answer, _ = runner.run({}, time.monotonic() + 20, NEVER, lambda text, stream: lines.append(text))
    assert (answer["result"], answer["retire"], lines) == (1, False, ["one"])


def test_a_process_that_answers_twice_is_not_used_again(peer: Peer) -> None:
    runner = peer.then(answers(frame(b"R", ANSWER), frame(b"R", ANSWER.replace(b"1", b"2"))))
    answer, _ = runner.run({}, time.monotonic() + 20, NEVER, print)
    assert (answer["result"], answer["retire"]) == (1, True)


def test_an_answer_that_lies_ready_is_late_after_the_deadline(peer: Peer) -> None:
    runner = peer.then(answers(frame(b"O", b"slow"), frame(b"R", ANSWER)))
    with pytest.raises(Expired):
        runner.run({}, time.monotonic() + 0.5, NEVER, lambda text, stream: time.sleep(0.7))


@pytest.mark.parametrize("sent", [frame(b"?", b"what"), frame(b"R", b"[]")[:6], b""], ids=["unknown", "cut", "nothing"])
def test_an_invalid_or_cut_answer_ends_the_process(peer: Peer, sent: bytes) -> None:
    def act(sock: socket.socket) -> None:
        answers(sent)(sock)
        sock.shutdown(socket.SHUT_RDWR)

    runner = peer.then(act)
    with pytest.raises(Died):
        runner.run({}, time.monotonic() + 20, NEVER, print)
