"""Random kills on an embedded stack: worker, router and ask functions end in the middle of calls. Each execution still ends once,
with its result, and waits no longer than a takeover takes.

`make kills ON=stack N=200` does this; `python -m tests.e2e.kills N SEED [yes|no]` does the same, with or without `Asks`. Kills come
in bursts. Between them there is quiet until all executions have ended, so that no kill meets a takeover: each wait has one cause.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from noetl_core.engine.dispatch.effects import FIRST_RECONCILIATION_S
from noetl_infra.stack import Stack, down
from noetl_infra.up import free_port, up
from tests.e2e.support import Api, function_processes

BURST = 20
"""Kills before all executions are waited for."""
EVERY_S = (0.1, 0.6)
START_EVERY_S = 0.2
LOOKS_S = 1
"""Seconds in which a call of one function is waited for, before another function is chosen."""
LONGEST_S = FIRST_RECONCILIATION_S + 60 + 30
"""The longest time in which an execution may stand still, with or without asks: until it is due, until the next sweep, and what
that takes on a busy machine. A lease ends before the execution is due."""
STEPS = 10
FUNCTIONS = {"worker": "WorkerFunctionName", "router": "RouterFunctionName", "ask": "AskFunctionName"}

_HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: killed, path: kills/{path}}}
executor: {{spec: {{result: "{{{{ steps.{last}.result }}}}"}}}}
workflow:
"""


def _step(name: str, result: str, *following: str, more: str = "") -> str:
    arcs = ", ".join(f"{{step: {step}}}" for step in following)
    onward = f"    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n" if following else ""
    return f'  - step: {name}\n{more}    tool: {{kind: noop, result: "{result}"}}\n{onward}'


def _chain() -> str:
    steps = [_step("s0", "{{ 1 }}", "s1")]
    steps += [
        _step(f"s{n}", f"{{{{ steps.s{n - 1}.result + 1 }}}}", *([f"s{n + 1}"] if n < STEPS - 1 else [])) for n in range(1, STEPS)
    ]
    return _HEAD.format(path="chain", last=f"s{STEPS - 1}") + "".join(steps)


def _net() -> str:
    steps = [_step("start", "{{ 1 }}", "left", "right")]
    steps += [_step(side, "{{ steps.start.result + 1 }}", f"{side}2") for side in ("left", "right")]
    steps += [_step(f"{side}2", f"{{{{ steps.{side}.result + 1 }}}}", "both") for side in ("left", "right")]
    joined = "{{ steps.left2.result + steps.right2.result }}"
    steps += [_step("both", joined, "last", more="    spec: {join: all}\n"), _step("last", "{{ steps.both.result + 4 }}")]
    return _HEAD.format(path="net", last="last") + "".join(steps)


SHAPES = {"chain": _chain(), "net": _net()}
"""Playbooks by name. All have the result 10."""


@dataclass
class Tally:
    """Counts of kills, and of the executions that survived them."""

    kills: Counter[str] = field(default_factory=Counter)
    executions: int = 0
    stood_still: list[float] = field(default_factory=list)
    """The longest time in which each execution stood still (seconds)."""
    taken: int = 0
    """Steps that a worker began by a claim in their schedule."""

    def __str__(self) -> str:
        killed = ", ".join(f"{n} of {name}" for name, n in sorted(self.kills.items()))
        late = sorted(self.stood_still)[-5:]
        waited = ", ".join(f"{seconds:.1f}" for seconds in late)
        return (
            f"{self.kills.total()} kills ({killed}); {self.executions} executions ended once, with their results; {self.taken} runs"
            f" were taken by asks; {sum(s > 5 for s in self.stood_still)} stood still for over 5 s, the longest for {waited} s"
        )


@contextmanager
def asking_stack(asks: str) -> Iterator[Stack]:
    """A stack with a folder and a port of its own, whose `Asks` is `asks`."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="noetl-kills-") as folder:
        try:
            yield up(folder, port=port, parameters={"Asks": asks})
        finally:
            down(folder)


STARTED: set[int] = set()
"""Processes that have waited for a call. Others are still starting: kills in their starts would only keep all functions down."""


def kill_functions(stack: Stack, kills: int, seed: int, tally: Tally | None = None) -> Tally:
    """Kill functions of a stack in the middle of calls, `kills` times, while executions run. Raises `AssertionError` with the
    execution that ended otherwise."""
    tally, chance, api = tally or Tally(), random.Random(seed), Api(stack.api_url)
    for shape in SHAPES.values():
        assert api.run(shape)["result"] == STEPS
    while (left := kills - tally.kills.total()) > 0:
        with _starting(api, chance.random()) as executions:
            for _ in range(min(BURST, left)):
                time.sleep(chance.uniform(*EVERY_S))
                tally.kills[_kill_one(stack, chance)] += 1
        for execution_id in executions:
            _judge(api, execution_id, tally)
    return tally


@contextmanager
def _starting(api: Api, seed: float) -> Iterator[list[str]]:
    """Start executions all the time. A start that was refused or not answered is repeated with the same key."""
    over, started, chance = threading.Event(), list[str](), random.Random(seed)

    def start() -> None:
        while not over.wait(START_EVERY_S):
            body = {"playbook": SHAPES[chance.choice(list(SHAPES))], "idempotency_key": f"{seed}-{len(started)}"}
            with suppress(OSError):  # it did not answer in time
                status, answer = api.call("POST", "/api/executions", body)
                if status == 202:
                    started.append(str(answer["execution_id"]))

    thread = threading.Thread(target=start)
    thread.start()
    try:
        yield started
    finally:
        over.set()
        thread.join()


def _kill_one(stack: Stack, chance: random.Random) -> str:
    """Kill a process that is in the middle of a call. Return its function."""
    names = {name: stack.outputs[key] for name, key in FUNCTIONS.items() if key in stack.outputs}
    until = time.monotonic() + 60
    while time.monotonic() < until:
        name = chance.choice(sorted(names))
        processes = function_processes(stack, names[name])
        soon = time.monotonic() + LOOKS_S
        while processes and time.monotonic() < soon:
            for process in processes:
                if _waits(process):
                    STARTED.add(process)
                elif process in STARTED:
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                        return name
    raise AssertionError("no function is at work")


def _waits(process: int) -> bool:
    """Return whether a function's process does nothing but read the next call from its standard input."""
    try:
        return Path(f"/proc/{process}/syscall").read_text().startswith(("0 0x0 ", "63 0x0 "))  # read, on x86-64 and on ARM
    except OSError:  # it has ended
        return False


def _judge(api: Api, execution_id: str, tally: Tally) -> None:
    summary = api.wait(execution_id, timeout_s=3 * LONGEST_S)
    assert (summary["status"], summary["result"]) == ("completed", STEPS), f"{execution_id}: {summary}"
    events = events_of(api, execution_id)
    names = Counter(event["name"] for event in events)
    assert (names["WorkflowFinished"], names["PlaybookProcessed"]) == (1, 1), f"{execution_id} ended more than once: {names}"
    done = Counter(event["step"] for event in events if event["name"] == "StepDone")
    assert set(done.values()) == {1}, f"{execution_id}: a step is done twice: {done}"
    times = sorted((datetime.fromisoformat(event["timestamp"]).timestamp(), n) for n, event in enumerate(events))
    stood_still, n, following = max((after[0] - before[0], before[1], after[1]) for before, after in pairwise(times))
    between = " and ".join(f"{events[m]['name']} of {events[m].get('step')}" for m in (n, following))
    assert stood_still < LONGEST_S, f"{execution_id} stood still for {stood_still:.1f} s, between {between}"
    tally.stood_still.append(stood_still)
    tally.taken += runs_taken(events)
    tally.executions += 1


def events_of(api: Api, execution_id: str) -> list[dict[str, Any]]:
    """Return the history of an execution."""
    status, answer = api.call("GET", f"/api/executions/{execution_id}/events?limit=1000")
    assert status == 200, answer
    return list(answer["events"])


def runs_taken(events: list[dict[str, Any]]) -> int:
    """Return how many steps a worker began by a claim in their schedule: the number of asks that were answered with a run."""
    return sum(bool(event["data"].get("claim")) for event in events if event["name"] == "StepScheduled")


def main() -> None:
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    sys.stdout.write(f"seed {seed}\n")
    with asking_stack(sys.argv[3] if len(sys.argv) > 3 else "yes") as stack:
        sys.stdout.write(f"{kill_functions(stack, total, seed)}\n")


if __name__ == "__main__":
    main()
