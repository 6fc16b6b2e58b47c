"""Event source mappings of MiniStack: a stream's function keeps no queue waiting, and an invocation waits for no further log line."""

from __future__ import annotations

import io
import threading
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from noetl_infra import pollers
from noetl_infra.pollers import hurry
from tests.unit.infra.runtimes import lambda_runtime

CODE = """
def handler(event, context):
    for number in range(event["lines"]):
        print("line", number, "x" * event["width"])
    return 1
"""


class Services:
    """As much of `lambda_svc` as is changed; a look at the streams takes until it is let go."""

    def __init__(self) -> None:
        self._ESM_IDLE_WAKE_GAP_SECONDS = 0.05
        self._esm_wake = threading.Event()
        self.looks, self.let_go = threading.Semaphore(0), threading.Semaphore(0)
        self._poll_dynamodb_streams: Any = self.look

    def look(self) -> bool:
        self.looks.release()
        self.let_go.acquire()
        return False


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with lambda_runtime(monkeypatch, "_read_stderr", "_drain_stderr_bounded") as found:
        yield found


def test_streams_are_polled_in_parallel_with_the_queues(runtime: Any) -> None:
    svc = Services()
    hurry(svc, runtime)
    assert svc.looks.acquire(timeout=20)
    assert not svc._poll_dynamodb_streams(), "the loop of the queues goes on while a function is at work on the stream"
    svc.let_go.release(100)


def test_a_record_wakes_the_pollers_of_streams_and_of_queues(runtime: Any) -> None:
    svc = Services()
    svc.let_go.release(100)
    hurry(svc, runtime, look_s=600.0)
    assert svc.looks.acquire(timeout=20)
    svc._esm_wake.set()
    assert svc.looks.acquire(timeout=20)
    assert svc._esm_wake.is_set()


def test_polling_continues_after_a_poll_that_fails(runtime: Any) -> None:
    svc, looks, failed = Services(), threading.Semaphore(0), list[int]()

    def fail() -> bool:
        looks.release()
        if len(failed) < 2:
            failed.append(1)
            raise RuntimeError("a stream without a table")
        return False

    svc._poll_dynamodb_streams = fail
    hurry(svc, runtime, look_s=0.01)
    assert looks.acquire(timeout=20) and looks.acquire(timeout=20) and looks.acquire(timeout=20)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("lines", "width"), [(0, 0), (1, 10), (200, 2000)])
def test_an_invocation_has_all_it_logged_and_waits_for_no_more(
    runtime: Any, monkeypatch: pytest.MonkeyPatch, lines: int, width: int
) -> None:
    hurry(Services(), runtime)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("app.py", CODE)
    arn = "arn:aws:lambda:us-east-1:000000000000:function:f"
    config = {"FunctionName": "f", "FunctionArn": arn, "Runtime": "python3.11", "Handler": "app.handler"}
    worker = runtime.Worker("f", config, packed.getvalue())
    worker.invoke({"lines": 0, "width": 0}, "cold")
    put = worker._stderr_queue.put

    def slow(line: str) -> None:
        time.sleep(0.01 if lines < 10 else 0)
        put(line)

    monkeypatch.setattr(worker._stderr_queue, "put", slow)  # the thread that follows the log stores a line late
    here, read, reads = threading.get_ident(), pollers.Log.read, list[int | None]()

    def noted(log: pollers.Log) -> int | None:
        got = read(log)
        if threading.get_ident() == here:
            reads.append(got)
        return got

    monkeypatch.setattr(pollers.Log, "read", noted)
    answer = worker.invoke({"lines": lines, "width": width}, "warm")
    worker.kill()
    assert answer["result"] == 1
    assert [line.rstrip("x") for line in answer["log"].splitlines()] == [f"line {n} " for n in range(lines)]
    assert reads.count(None) == 1 and reads[-1] is None, (
        "an empty pipe is not read again: no waiting for 5 ms without a line, or 50 ms"
    )
