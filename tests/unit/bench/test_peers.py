"""The comparison with other engines: what a session measures, how ratios are made, and that nothing is missing silently."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bench.figures import write_between
from bench.peers import __main__ as command
from bench.peers import installs, session, table
from bench.peers.cases import CASES, HELLO, Case
from bench.peers.driver import Driver, Failed, TooLong
from bench.peers.installs import NotRun
from bench.peers.place import Place
from bench.peers.session import CASE_S, SPENT_S, Measured, Outcome, rounds
from bench.peers.sides import LOCAL, POWER, SIDES, STACK, Command, Side
from bench.processes import Peak, peak_of, with_descendants

from tests.waiting import eventually

CHAIN = Case("chain", "chain of 10", "ms a step", "lower", 10, {"steps": 10})
START = Case(HELLO, "hello", "s", "lower", 1, {})
ROOT = Path(__file__).parents[3]


def unprepared(place: Place) -> Command:
    raise NotRun("npm is not installed")


def side(name: str, against: str = "", prepare: Callable[[Place], Command] = unprepared) -> Side:
    return Side(name, f"{name} keeps it", f"{name} does it", against, prepare)


class Watch:
    """A clock that only what is measured moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, *seconds: float) -> Callable[[float], float]:
        left = list(seconds)

        def ask(limit_s: float) -> float:
            self.now += left[0]
            return left.pop(0)

        return ask


def test_sides_take_turns_and_the_first_round_is_not_counted() -> None:
    turns: list[str] = []

    def ask(name: str) -> Callable[[float], float]:
        def measure(limit_s: float) -> float:
            turns.append(name)
            return float(len(turns))

        return measure

    ours, theirs = rounds(CHAIN, {"a": ask("a"), "b": ask("b")}, 2, lambda: 0.0, 100)
    assert turns == ["a", "b", "a", "b", "a", "b"]
    assert ours.rounds == {1: 3.0, 2: 5.0}
    assert theirs.rounds == {1: 4.0, 2: 6.0}


def test_a_slow_side_runs_fewer_rounds_and_does_not_delay_the_others() -> None:
    watch = Watch()
    slow, fast = rounds(CHAIN, {"slow": watch.takes(SPENT_S + 1), "fast": watch.takes(1, 1, 1)}, 2, watch, 1e9)
    assert slow.rounds == {0: SPENT_S + 1}
    assert fast.rounds == {1: 1, 2: 1}


def test_a_failing_side_is_reported_and_not_run_again() -> None:
    asked = []

    def fails(limit_s: float) -> float:
        asked.append(limit_s)
        raise Failed("WrongResult: 3 instead of 4")

    (found,) = rounds(CHAIN, {"a": fails}, 5, lambda: 0.0, 1000)
    assert (found.rounds, found.why, asked) == ({}, "WrongResult: 3 instead of 4", [CASE_S])


def test_a_session_runs_nothing_after_its_time_and_reports_it() -> None:
    watch = Watch()
    first, second = rounds(CHAIN, {"first": watch.takes(5), "second": watch.takes()}, 3, watch, 5)
    assert first.rounds == {0: 5}
    assert second.why == "the session's time was over"


def test_a_repetition_is_cut_at_the_sessions_end() -> None:
    limits = []

    def measure(limit_s: float) -> float:
        limits.append(limit_s)
        return 1.0

    rounds(CHAIN, {"a": measure}, 0, lambda: 0.0, 7)
    assert limits == [7]


def test_a_round_that_the_sessions_end_cuts_off_takes_nothing_from_those_before() -> None:
    left = [1.0, 2.0]

    def measure(limit_s: float) -> float:
        if not left:
            raise TooLong("not within 3 s")
        return left.pop(0)

    (found,) = rounds(CHAIN, {"a": measure}, 5, lambda: 0.0, 3)
    assert (found.rounds, found.why) == ({1: 2.0}, "")


def test_a_ratio_is_the_median_of_rounds_and_its_noise_their_range() -> None:
    ratio = table.ratio({1: 1.0, 2: 2.0, 3: 4.0}, {1: 4.0, 2: 6.0, 3: 8.0, 0: 99.0})
    assert ratio == table.Ratio(median=3.0, least=2.0, most=4.0)
    assert str(ratio) == "3 x (2–4)"


def test_a_ratio_without_common_rounds_is_as_wide_as_all_pairs() -> None:
    assert table.ratio({1: 1.0, 2: 2.0}, {0: 4.0}) == table.Ratio(3.0, 2.0, 4.0)


def test_the_ratio_to_an_unmeasured_side_is_none() -> None:
    assert table.ratio({}, {1: 1.0}) is None


@pytest.mark.parametrize(
    ("case", "seconds", "value"),
    [(CASES[0], 0.05, 1.0), (next(c for c in CASES if c.name == "map"), 0.5, 2000.0), (CASES[-1], 0.4, 0.4)],
)
def test_seconds_are_converted_to_the_unit_of_the_case(case: Case, seconds: float, value: float) -> None:
    assert case.value(seconds) == pytest.approx(value)


def test_a_faster_peer_has_a_ratio_below_one_whichever_way_the_figure_is_better() -> None:
    ours, theirs = Measured(LOCAL, "map", {1: 1.0}), Measured("peer", "map", {1: 0.5})
    rate = next(case for case in CASES if case.name == "map")
    text = table.figures_table(Outcome([ours, theirs]), [side(LOCAL), side("peer", LOCAL)], [rate])
    assert f"| {rate.title} | peer | 2,000 items/s | 2,000–2,000 | 1 | 0.5 x (0.5–0.5) |  |" in text


def test_every_side_and_case_has_a_row_even_without_a_measurement() -> None:
    sides = [side(LOCAL), side("peer", LOCAL), side("absent", LOCAL), side("silent", LOCAL)]
    outcome = Outcome(
        [Measured(LOCAL, "chain", {1: 0.01, 2: 0.02}, memory_mb=41.4), Measured("peer", "chain", why="not within 60 s")],
        {LOCAL: {"version": "1.2"}, "peer": {"version": "3"}},
        {"absent": "npm is not installed | at all\nreally"},
    )
    assert table.figures_table(outcome, sides, [CHAIN, START]) == (
        "| case | engine | median | least–most | n | NoETL is faster by | memory |\n"
        "|---|---|---|---|---|---|---|\n"
        f"| chain of 10 | {LOCAL} | 1.5 ms a step | 1–2 | 2 |  | 41.4 MB |\n"
        "| chain of 10 | peer | not run: not within 60 s | | | | |\n"
        "| chain of 10 | silent | not run: not asked | | | | |\n"
        f"| hello | {LOCAL} | not run: its server keeps running, so no process is timed from start to exit | | | | |\n"
        "| hello | peer | not run: its server keeps running, so no process is timed from start to exit | | | | |\n"
        "| hello | silent | not run: its server keeps running, so no process is timed from start to exit | | | | |\n"
    )
    assert table.sides_table(outcome, sides[:3]) == (
        "| engine | version | what it keeps | what the work is | compared with |\n"
        "|---|---|---|---|---|\n"
        f"| {LOCAL} | 1.2 | {LOCAL} keeps it | {LOCAL} does it |  |\n"
        f"| peer | 3 | peer keeps it | peer does it | {LOCAL} |\n"
        "| absent | not run: npm is not installed / at all really | | | |\n"
    )


def test_a_case_of_the_emulated_aws_has_rows_of_its_sides_alone() -> None:
    on_stack = Side("cloud", "", "", "", unprepared, on_stack=True)
    case = Case("client", "by the client", "s", "lower", 1, {}, stack_only=True)
    text = table.figures_table(Outcome(), [side(LOCAL), on_stack], [case])
    assert f"| by the client | {LOCAL} |" not in text
    assert "| by the client | cloud | not run: not asked |" in text


def test_memory_is_measured_in_the_first_round_alone() -> None:
    looked: list[str] = []

    @contextmanager
    def watch(name: str) -> Iterator[Peak]:
        looked.append(name)
        yield Peak(70.0)

    ours, theirs = rounds(CHAIN, {"a": lambda _: 1.0, "b": lambda _: 2.0}, 2, lambda: 0.0, 100, watch)
    assert looked == ["a", "b"]
    assert (ours.memory_mb, theirs.memory_mb) == (70.0, 70.0)
    assert ours.rounds == {1: 1.0, 2: 1.0}


def test_memory_is_that_of_a_process_and_all_that_it_started(tmp_path: Path) -> None:
    """Each counts once, also one that is named beside its parent. The child has a hundred megabytes in the middle of a case."""
    child = "held = bytearray(100_000_000); print('ready', flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin is not None and started.stdout is not None
        with peak_of(lambda: with_descendants([started.pid]), every_s=0.01) as most:
            started.stdout.readline()
        started.stdin.close()
    assert 100 < most.mb < 190


def test_the_page_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    first, last = table.MARKS
    page.write_text(f"before\n{first}old\n{last}after\n")
    text = table.page(Outcome(), [], [CHAIN], 5, datetime(2026, 1, 2, tzinfo=UTC), 0.5)
    write_between(table.MARKS, text, page)
    assert page.read_text() == f"before\n{first}{text}{last}after\n"
    assert "Measured on 2026-01-02 with `make peers`" in text
    assert "load 0.5 at the beginning; 5 rounds after one for warming up" in text


def test_the_docs_have_the_marks_and_a_row_for_every_side() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    assert all(text.count(mark) == 1 for mark in table.MARKS)
    assert [s.name for s in SIDES if f"| {s.name} |" not in text] == []


def test_every_peer_is_compared_with_a_side_of_ours_that_keeps_as_much() -> None:
    ours = {LOCAL, POWER, STACK}
    assert {s.name for s in SIDES if not s.against} == ours
    assert {s.against for s in SIDES if s.against} == ours


def test_an_engine_that_cannot_be_installed_is_not_run_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotRun, match="npm is not installed"):
        installs.node_modules(tmp_path)
    with pytest.raises(NotRun, match="nothing could not be installed: no such lock"):
        installs.carry_out("nothing", [sys.executable, "-c", "import sys; sys.exit('no such lock')"])


def test_the_command_reports_an_engine_that_it_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--json", str(tmp_path / "peers.json"), "--case", "chain"], (side("absent"),)) == 0
    output = capsys.readouterr().out
    assert "| absent | not run: npm is not installed |" in output
    assert len(output.split("| absent |")) == 2, "its row of the engines alone"


DRIVER = """
import json, sys, time
print(json.dumps({"ready": {"version": "7"}}), flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    if ask["case"] == "late":
        time.sleep(60)
    if ask["case"] == "dies":
        sys.exit("out of memory")
    print(json.dumps({"error": "wrong"} if ask["case"] == "wrong" else {"seconds": 0.5}), flush=True)
"""


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver([sys.executable, "-c", DRIVER], {}, tmp_path / "log")


def test_a_driver_answers_requests_and_ends(driver: Driver) -> None:
    with_error = {"case": "wrong"}
    assert driver.about == {"version": "7"}
    assert driver.seconds({"case": "chain"}, 10) == 0.5
    with pytest.raises(Failed, match="wrong"):
        driver.seconds(with_error, 10)
    assert driver.seconds({"case": "chain"}, 10) == 0.5
    driver.close()


def test_a_driver_that_is_late_or_dies_is_not_waited_for(tmp_path: Path) -> None:
    driver = Driver([sys.executable, "-c", DRIVER], {}, tmp_path / "log", end_s=0.1)
    with pytest.raises(TooLong, match=r"not within 0 s"):
        driver.seconds({"case": "late"}, 0.1)
    driver.close()
    another = Driver([sys.executable, "-c", DRIVER], {}, tmp_path / "another")
    with pytest.raises(TooLong, match="its process ended: out of memory"):
        another.seconds({"case": "dies"}, 10)
    another.close()


def runs(pid: int) -> bool:
    """Return whether a process runs. An ended one may wait for its parent to take note."""
    try:
        os.kill(pid, 0)
        return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()[:1] != "Z"
    except ProcessLookupError:
        return False


def test_processes_that_a_driver_started_end_with_it(tmp_path: Path) -> None:
    child = tmp_path / "child"
    text = (
        "import subprocess, sys\n"
        f"started = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(child)!r}, 'w').write(str(started.pid))\n" + DRIVER
    )
    Driver([sys.executable, "-c", text], {}, tmp_path / "log").close()
    until = time.monotonic() + 20
    while runs(int(child.read_text())):  # killed, but perhaps not gone yet
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_late_driver_is_replaced_for_the_next_case(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        running = session.Running(place, end_s=0.1)
        running.prepare(side("slow", prepare=lambda place: Command((sys.executable, "-c", DRIVER))))
        with pytest.raises(TooLong):
            running.case("slow", {"case": "late"})(0.1)
        assert running.case("slow", {"case": "chain"})(10) == 0.5
        running.close()
    assert list(tmp_path.iterdir()) == []


def test_a_side_is_stopped_except_while_it_is_measured(tmp_path: Path) -> None:
    def stopped(name: str) -> bool:
        return Path(f"/proc/{running.drivers[name].pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"

    with Place(tmp_path) as place:
        running = session.Running(place, end_s=20, settle_s=0)
        for name in ("a", "b"):
            running.prepare(side(name, prepare=lambda place: Command((sys.executable, "-c", DRIVER))))
            running.stop(name)
        eventually(lambda: stopped("a") and stopped("b"))  # a signal takes effect a moment later

        def ask(limit_s: float) -> float:
            eventually(lambda: not stopped("a"))
            assert stopped("b")
            return running.case("a", {"case": "chain"})(limit_s)

        assert running.alone("a", ask)(10) == 0.5
        eventually(lambda: stopped("a"))
        assert stopped("b")
        running.close()
