"""The HTTP client's connections: shared, limited, and never given on half used."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from noetl_core.tools.base import ToolCall
from noetl_core.tools.calls.event_loop import EventLoop, LoopTask
from noetl_core.tools.http.client import texts_of
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke_evented
from tests.call_counts import calls_of
from tests.fake_dns import resolve

from .conftest import kind
from .connections import Handler, Limited, Server, base, calls, kinds, limited, outcome_of, server, sockets, tool

__all__ = ["limited", "server", "tool"]


def test_a_hundred_calls_are_at_the_server_at_once_without_a_thread_and_their_connections_are_used_again(
    server: Server, tool: HttpTool
) -> None:
    started = list[str]()
    begin = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        if "process_request_thread" not in repr(thread):
            started.append(thread.name)
        begin(thread)

    server.together(100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", counted)
        for _ in range(2):
            assert kinds(calls(tool, *[base(server)] * 100)) == {"ok": 100}
    assert [name for name in started if "process_request" not in name] == []
    assert server.connections == 100


@pytest.mark.nightly
def test_the_work_of_a_call_does_not_grow_with_the_connections_that_are_open(server: Server, tool: HttpTool) -> None:
    def work(in_flight: int) -> float:
        server.together(in_flight)
        calls(tool, *[base(server)] * in_flight)
        return calls_of(lambda: [calls(tool, *[base(server)] * in_flight) for _ in range(100 // in_flight)]) / 100

    one, many = work(1), work(100)
    assert server.connections == 100
    assert many < 1.2 * one, f"{one:.0f} function calls for one at a time, {many:.0f} for each of a hundred"
    assert one < 1_000, f"{one:.0f} function calls"


def test_connections_serve_the_loops_of_other_threads(server: Server, tool: HttpTool) -> None:
    outcomes = calls(tool, base(server))
    thread = threading.Thread(target=lambda: outcomes.extend(calls(tool, base(server))))
    thread.start()
    thread.join()
    assert kinds(outcomes) == {"ok": 2} and server.connections == 1


def test_a_connection_that_the_server_closed_is_not_used_again(server: Server, limited: Limited) -> None:
    tool, client = limited(5)
    calls(tool, base(server))
    (idle,) = sockets(client)
    idle.shutdown(socket.SHUT_RD)  # as if the server had hung up meanwhile: the end can be read
    assert kinds(calls(tool, base(server))) == {"ok": 1}
    assert server.connections == 2
    server.closes = True
    calls(tool, base(server), base(server))
    assert kinds(calls(tool, base(server))) == {"ok": 1}


@pytest.mark.parametrize("path", ["/large", "/redirect"])
def test_a_connection_with_a_partly_read_answer_is_not_reused(server: Server, tool: HttpTool, path: str) -> None:
    first = calls(tool, base(server) + path, max_response_bytes=10)
    assert kind(first[0]) == ("server_error" if path == "/large" else "ok")
    outcome = calls(tool, base(server) + "/after")[0]
    assert outcome.result["data"] == "xx"


def test_connections_stay_within_the_limit_and_waiting_calls_get_one(server: Server, limited: Limited) -> None:
    tool, _ = limited(3)
    server.together(3)
    assert kinds(calls(tool, *[base(server)] * 30)) == {"ok": 30}
    assert server.connections == 3


def test_a_call_times_out_waiting_for_a_connection_and_later_calls_proceed(server: Server, limited: Limited) -> None:
    tool, _ = limited(1)
    server.together(2)
    with EventLoop() as loop:

        def begin(pool: float) -> LoopTask:
            spec = {"retry": 1, "timeout": {"pool": pool}}
            return loop.start(invoke_evented(tool, ToolCall("http", {"url": base(server)}, spec, timeout_s=20), loop))

        first, impatient, patient = begin(10), begin(0.05), begin(10)
        while not impatient.done:
            loop.turn(0.5)
        late = outcome_of(impatient)
        assert kind(late) == "timeout" and late.error is not None and late.error.code == "PoolTimeout"
        assert not first.done and not patient.done
        held = server.barrier
        server.together(1)
        held.wait()  # the first is answered
        while loop:
            loop.turn(0.5)
        assert kinds([outcome_of(first), outcome_of(patient)]) == {"ok": 2}
        assert server.connections == 1


def test_a_cancelled_call_passes_its_connection_to_the_next_waiting_call(server: Server, limited: Limited) -> None:
    tool, _ = limited(1)
    with EventLoop() as loop:
        spec = {"retry": 1, "timeout": {"pool": 3}}
        first, second, third = (
            loop.start(invoke_evented(tool, ToolCall("http", {"url": base(server)}, spec, timeout_s=20), loop)) for _ in range(3)
        )
        while not first.done:
            loop.turn(0.5)
        loop.stop(second)  # woken, and not yet gone on
        while loop:
            loop.turn(0.5)
    assert [kind(outcome_of(task)) for task in (first, second, third)] == ["ok", "cancelled", "ok"]


def test_at_the_limit_an_idle_connection_to_elsewhere_makes_room(server: Server, limited: Limited) -> None:
    tool, client = limited(1)
    for host in ("127.0.0.1", "localhost", "127.0.0.1"):
        assert kinds(calls(tool, base(server, host))) == {"ok": 1}
    assert server.connections == 3 and len(sockets(client)) == 1


def test_a_connection_that_fails_leaves_its_place(server: Server, limited: Limited) -> None:
    tool, client = limited(2)
    assert kinds(calls(tool, *["http://127.0.0.1:1/"] * 5)) == {"connection": 5}
    assert kinds(calls(tool, *["http://no-such-host.invalid/"] * 5)) == {"connection": 5}
    assert kinds(calls(tool, *["http://169.254.169.254/"] * 5)) == {"client_error": 5}
    assert not sockets(client)
    assert kinds(calls(tool, base(server))) == {"ok": 1}


def test_old_connections_are_closed_before_they_are_used(server: Server, limited: Limited) -> None:
    tool, client = limited(5, idle_s=0.02)
    server.together(2)
    calls(tool, base(server), base(server))
    time.sleep(0.05)
    server.together(1)
    calls(tool, base(server))
    assert server.connections == 3 and len(sockets(client)) == 1


def test_hosts_that_are_called_once_are_not_remembered(server: Server, limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, lambda _: ["127.0.0.1"])
    tool, client = limited(1)
    for n in range(6):
        assert kinds(calls(tool, base(server, f"place-{n}.test"))) == {"ok": 1}
    assert len(sockets(client)) <= 2


def test_an_extra_response_does_not_answer_the_next_call(server: Server, tool: HttpTool) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n%b"

    class Talks(Handler):
        def do_GET(self) -> None:
            self.wfile.write(answer % b"asked" + answer % b"extra")

    server.RequestHandlerClass = Talks
    assert [calls(tool, base(server))[0].result["data"] for _ in range(3)] == ["asked"] * 3


def test_a_response_on_an_idle_connection_does_not_answer_the_next_call(server: Server, tool: HttpTool) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n%b"
    answered = threading.Event()

    class Talks(Handler):
        def do_GET(self) -> None:
            self.wfile.write(answer % b"asked")
            time.sleep(0.05)
            self.wfile.write(answer % b"extra")
            answered.set()

    server.RequestHandlerClass = Talks
    for n in range(3):
        answered.clear()
        assert calls(tool, base(server))[0].result["data"] == "asked"
        answered.wait(10)
        assert server.connections == n + 1


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
def test_a_request_that_gets_no_answer_is_sent_once(server: Server, tool: HttpTool, method: str) -> None:
    asked = list[str]()

    class HangsUp(Handler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.close_connection = True

        do_PUT = do_POST = do_GET

    server.RequestHandlerClass = HangsUp
    call = ToolCall("http", {"url": base(server), "method": method}, {"retry": 1}, timeout_s=20)
    outcome = tool.run(call)
    assert kind(outcome) == "connection" and outcome.error is not None and outcome.error.code == "RemoteProtocolError"
    assert asked == ["/"]


@pytest.mark.parametrize(
    ("raw", "texts"),
    [
        pytest.param([(b"A", b"1"), (b"a", b"2")], {"a": "1, 2"}, id="twice"),
        pytest.param([(b"A", "ü".encode())], {"a": "ü"}, id="UTF-8"),
        pytest.param([(b"A", b"\xfc"), (b"B", b"x")], {"a": "ü", "b": "x"}, id="Latin-1"),
    ],
)
def test_headers_are_text(raw: list[tuple[bytes, bytes]], texts: dict[str, str]) -> None:
    assert texts_of(raw) == texts
