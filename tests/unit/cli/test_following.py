"""Following an execution on a stack: what a silent API, a timeout and Ctrl-C do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import HTTPServer
from typing import Any

import pytest

from noetl_cli.backends.stack import StackBackend
from noetl_cli.display.follow import SHOW_AFTER_S, Watch, polled
from noetl_cli.errors import TIMEOUT, UNREACHABLE, USAGE, Exit, Stopped
from noetl_core.api.client import ATTEMPTS
from tests.servers import Handler, serving

Answer = str | BaseException


class Stack(StackBackend):
    """Answers from a list; the last one forever."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__("http://stack")
        self.answers = list(answers)
        self.api = self  # type: ignore[assignment]  # as far as it is asked

    def state(self, execution_id: str) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return {"status": answer}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Time passes by sleeping only."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    yield


DOWN = Exit(UNREACHABLE, "no answer")


def test_following_ends_with_the_execution_after_one_more_request() -> None:
    ticks: list[int] = []
    Stack("running", "running", "completed").follow("1", None, lambda: ticks.append(1))
    assert len(ticks) == 3


def test_an_api_that_is_silent_for_a_moment_is_asked_again() -> None:
    Stack("running", DOWN, DOWN, "running", DOWN, "completed").follow("1", None, lambda: None)


def test_an_unresponsive_api_ends_following() -> None:
    with pytest.raises(Exit, match="no answer"):
        Stack("running", DOWN).follow("1", None, lambda: None)


def test_a_refusal_ends_following_at_once() -> None:
    stack = Stack(Exit(USAGE, "there is no execution 1"), "completed")
    with pytest.raises(Exit, match="there is no"):
        stack.follow("1", None, lambda: None)


@pytest.mark.parametrize(("answers", "code"), [(("running",), TIMEOUT), (("running", Stopped("SIGTERM", 15)), 143)])
def test_leaving_reports_that_the_execution_continues(answers: tuple[Answer, ...], code: int) -> None:
    with pytest.raises(Exit, match="continues") as left:
        Stack(*answers).follow("1", 5.0, lambda: None)
    assert left.value.code == code


def test_polling_reads_each_event_once() -> None:
    pages: list[dict[str, Any]] = [
        {"events": [{"n": 1}], "cursor": "a", "more": False},
        {"events": [], "cursor": "a", "more": False},
        {"events": [{"n": 2}], "cursor": None, "more": False},
    ]
    asked: list[str | None] = []

    class Pages(Stack):
        def events(self, execution_id: str, **query: Any) -> dict[str, Any]:
            asked.append(query["after"])
            return pages.pop(0)

    read = polled(Pages(), "1")
    assert [read(), read(), read(), read()] == [[{"n": 1}], [], [{"n": 2}], []]
    assert asked == [None, "a", "a"]


def test_nothing_is_read_for_a_program_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(Stack(AssertionError("asked")), "1", quiet=True)
    watch.tick()
    watch.close()
    assert watch.silent


def test_a_wait_for_a_limit_shows_the_command_that_lists_its_holders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted = {"holder": "1", "key": "orders of a shop", "max": 1, "on_limit": "wait"}
    asked = {"name": "LimitRequested", "timestamp": "2026-11-22T02:00:00.000000Z", "data": wanted}
    watch = Watch(Stack(), "1", news=lambda: [asked])
    time.sleep(SHOW_AFTER_S)
    watch.tick()
    assert "waits for limit orders of a shop (`noetl limits 'orders of a shop' --on stack` shows" in capsys.readouterr().err


def test_a_look_at_a_long_log_ends_and_the_next_one_goes_on(clock: None) -> None:
    class Slow(Stack):
        """Every page takes a second, and there is always another."""

        def events(self, execution_id: str, **query: Any) -> dict[str, Any]:
            time.sleep(1)
            n = int(query["after"] or 0) + 1
            return {"events": [{"n": n}], "cursor": str(n), "more": True}

    read = polled(Slow(), "1")
    assert [e["n"] for e in read()] == [1, 2, 3]
    assert [e["n"] for e in read()] == [4, 5, 6]


class Busy(HTTPServer):
    """Answers 429 `refusals` times, then 202."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Refusing)
        self.asked = self.refusals = 0


class Refusing(Handler):
    server: Busy

    def do_POST(self) -> None:
        self.told()
        self.server.asked += 1
        if self.server.asked > self.server.refusals:
            self.say(202, b'{"execution_id": "1"}')
        else:
            error = {"error": {"code": "throttled", "message": "busy", "details": []}}
            self.say(429, json.dumps(error).encode(), Retry_After="3")


@pytest.fixture
def busy() -> Iterator[Busy]:
    with serving(Busy()) as server:
        yield server


def test_a_busy_api_is_retried_after_its_retry_after(busy: Busy) -> None:
    busy.refusals = 3
    began = time.monotonic()
    assert StackBackend(f"http://127.0.0.1:{busy.server_port}").api.start(path="x")["execution_id"] == "1"
    assert busy.asked == 4
    assert time.monotonic() - began == 9


def test_an_api_that_stays_busy_is_given_up(busy: Busy) -> None:
    busy.refusals = 1000
    with pytest.raises(Exit) as end:
        StackBackend(f"http://127.0.0.1:{busy.server_port}").api.start(path="x")
    assert (end.value.code, str(end.value)) == (UNREACHABLE, "busy")
    assert busy.asked == ATTEMPTS
