"""Random kills of the local runner: real processes carry out a playbook. Each is killed by a signal at a random moment and resumed,
until one completes; the result must be the same as without interruptions.

`make kills N=200` runs many; `python -m tests.sim.kills N [SEED]` does the same.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from noetl_core.adapters.local.database import Database
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.control.admit import StartRequest, register
from noetl_core.engine import ids
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit, StreamId
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import Tool, ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from noetl_core.views.reading.cursor import history
from noetl_core.views.reading.envelopes import expand
from tests.properties import examples
from tests.sim import generated_playbooks, invariants, test_children, test_compensation
from tests.sim.slow_command import answer
from tests.sim.workers import SCRIPTED, ScriptedTool

ROOT = Path(__file__).resolve().parents[2]
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
STARTS_S, LONGEST_S = 0.2, 0.9
"""The earliest time of a kill (about the start of a process), and the latest (seconds)."""
KILLS_OF_A_RUN = 9
"""The most kills of an execution: more than the takeovers after which only a person may continue a run."""
PATIENCE_S = 50
"""The time limit of a process, shorter than the lease of the previous one (seconds)."""


@dataclass(frozen=True)
class Shape:
    """A generated playbook, the failures of its tools, and the playbooks that it calls."""

    kind: str
    source: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    loop: generated_playbooks.GenLoop | None = None
    calls: tuple[str, ...] = ()

    def answer(self, call: ToolCall) -> Outcome:
        return answer(self.facts, call)

    def told(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Return the part of the summary that does not depend on the order of concurrent work, and so must be equal."""
        out = {k: summary[k] for k in ("status", "result", "ctx", "error", "steps")}
        if self.loop is not None and self.loop.fails:  # the first failing iteration depends on the order
            return {"status": out["status"]}
        if self.kind == "net":
            del out["result"]  # the result of the step that ended last
            out["steps"] = {n: {k: v for k, v in s.items() if k != "result"} for n, s in out["steps"].items()}
        return out


def _pipeline(tasks: tuple[generated_playbooks.GenTask, ...]) -> Shape:
    return Shape(
        "pipeline",
        _quick(generated_playbooks.playbook([{"step": "start", "tool": generated_playbooks.tasks_of(tasks)}])),
        {"fails": [t.fails for t in tasks]},
    )


def _loop(loop: generated_playbooks.GenLoop) -> Shape:
    return Shape("loop", _quick(generated_playbooks.playbook([loop.step()])), {"failing": sorted(loop.failing)}, loop)


def _net(net: tuple[generated_playbooks.GenStep, ...]) -> Shape:
    return Shape("net", _quick(generated_playbooks.playbook(generated_playbooks.net_steps(net))))


def _quick(source: str) -> str:
    """Return the playbook with waits that are short in real time: one in the worker, one that suspends the run."""
    for seconds in (30, 60, 100, 120, 300, 700, 2_000):
        source = source.replace(f"duration: {seconds}", f"duration: {5.2 if seconds == 2_000 else 0.1}")
        source = source.replace(f"delay: {seconds}\n", "delay: 0.05\n")
    return source.replace("delay: 1\n", "delay: 0.05\n")


_PARENT = _quick(
    test_children.parent("workload: {n: '{{ iter.i }}'}", "    loop: {in: [1, 2, 3], iterator: i, spec: {mode: parallel}}\n")
)
_FIXED = (
    Shape("children", _PARENT, calls=(_quick(test_children.CHILD),)),
    Shape("compensation", _quick(test_compensation.TRIP)),
)
shapes = st.one_of(
    generated_playbooks.pipelines().map(_pipeline),
    generated_playbooks.loops().map(_loop),
    generated_playbooks.nets().map(_net),
    st.sampled_from(_FIXED),
)


def drawn(number: int) -> Shape:
    """Return the shape of a number."""
    found: list[Shape] = []

    @seed(number)
    @settings(examples(5), derandomize=False, phases=[Phase.generate])
    @given(shapes)
    def draw(shape: Shape) -> None:
        found.append(shape)

    draw()
    return found[-1]


def undisturbed(shape: Shape) -> dict[str, Any]:
    """Return the result of the playbook in one uninterrupted process."""
    tools: dict[str, Tool] = {kind: ScriptedTool(_World(shape), kind) for kind in SCRIPTED}  # type: ignore[arg-type]
    with closing(LocalWiring(tools=ToolRegistry(tools))) as local:
        for source in shape.calls:
            register(local.control, source)
        execution_id = local.start(StartRequest(playbook=shape.source)).execution_id
        assert local.run(execution_id, timeout_s=60)
        return shape.told(executions.summary(local.control, execution_id))


class _World:
    """The part of a world that a `ScriptedTool` uses."""

    asks = False

    def __init__(self, shape: Shape) -> None:
        self.tool, self.calls = shape.answer, list[ToolCall]()


@dataclass
class Tally:
    """Counts of kills and of endings."""

    runs: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    """Errors of failed executions, by kind."""
    most: int = 0
    """Kills of one run."""
    longest_s: float = 0.0

    def __str__(self) -> str:
        def listed(counts: Counter[str]) -> str:
            return ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "none"

        return (
            f"{sum(self.kills.values())} kills ({listed(self.kills)}) of {sum(self.runs.values())} runs ({listed(self.runs)}), "
            f"{self.most} of one run at most\nended: {listed(self.statuses)}; errors: {listed(self.kinds)}, as without kills; "
            f"lost: {self.kinds['lost']}; longest last process {self.longest_s:.1f} s"
        )


def kill_runs(kills: int, first_seed: int = 0, tally: Tally | None = None) -> Tally:
    """Run random shapes until `kills` processes have been killed. Raises `AssertionError` with the seed for reproduction."""
    tally = tally or Tally()
    number = first_seed
    while sum(tally.kills.values()) < kills:
        with tempfile.TemporaryDirectory(prefix="noetl-kills-") as folder:
            try:
                _Killed(drawn(number), Path(folder), random.Random(number), tally).to_the_end()
            except AssertionError as error:
                raise AssertionError(f"seed {number}: {error}") from error
        number += 1
    return tally


class _Killed:
    """One execution in a folder of its own."""

    def __init__(self, shape: Shape, folder: Path, chance: random.Random, tally: Tally) -> None:
        self.shape, self.folder, self.chance, self.tally = shape, folder, chance, tally
        self.key = f"k{chance.randrange(10**9)}"
        self.execution_id = ids.execution_id_from_key(self.key)
        (folder / "facts").write_text(json.dumps(dict(shape.facts)))
        (folder / "playbook.yaml").write_text(shape.source)
        for n, source in enumerate(shape.calls):
            (folder / f"called{n}.yaml").write_text(source)
            done = self.begin("register", f"called{n}.yaml", "--on", "local")
            assert done.wait(PATIENCE_S) == 0

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        with (self.folder / "stdout").open("w") as out, (self.folder / "stderr").open("w") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.sim.slow_command", str(self.folder / "facts"), *arguments],
                cwd=self.folder,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                    "NOETL_HOME": str(self.folder / ".noetl"),
                },
                text=True,
                stdout=out,
                stderr=stderr,
                start_new_session=True,
            )

    def to_the_end(self) -> None:
        self.tally.runs[self.shape.kind] += 1
        planned = self.chance.randint(1, KILLS_OF_A_RUN)
        landed = 0
        for _ in range(planned):
            number = self.chance.choice(list(CODES))
            code = self.disturbed(number)
            if code in (0, 1):
                break  # it had ended
            assert code in (CODES[number], -number), f"{number.name}: exit code {code}\n{self.stderr}"
            landed += 1
            self.tally.kills[number.name] += 1
        else:
            began = time.monotonic()
            assert self.command().wait(PATIENCE_S) in (0, 1), self.stderr
            self.tally.longest_s = max(self.tally.longest_s, time.monotonic() - began)
        self.tally.most = max(self.tally.most, landed)
        self.judge()

    def command(self) -> subprocess.Popen[str]:
        """Start `run` or, once the log has the execution, `resume`."""
        if self.commits(StreamId(self.execution_id)):
            return self.begin("resume", self.execution_id, "--output", "json")
        return self.begin("run", "playbook.yaml", "--idempotency-key", self.key, "--output", "json")

    def disturbed(self, number: signal.Signals) -> int:
        """Start a process and send it a signal after a while: to it alone, or to its process group as a terminal does."""
        process = self.command()
        try:
            return process.wait(self.chance.uniform(STARTS_S, LONGEST_S))
        except subprocess.TimeoutExpired:
            (os.killpg if self.chance.random() < 0.5 else os.kill)(process.pid, number)
            return process.wait(PATIENCE_S)

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def commits(self, stream: StreamId) -> list[Commit]:
        if not (self.folder / ".noetl/runs.db").exists():
            return []
        with closing(Database(self.folder / ".noetl/runs.db")) as database:
            return list(SqliteEventStore(database).read(stream))

    def judge(self) -> None:
        summary = self.ending()
        error = summary["error"]
        assert error is None or error["kind"] != "lost", error
        self.tally.statuses[summary["status"]] += 1
        if error is not None:
            self.tally.kinds[error["kind"]] += 1
        assert self.shape.told(summary) == undisturbed(self.shape), self.shape.source
        with closing(Database(self.folder / ".noetl/runs.db")) as database:
            store = SqliteEventStore(database)
            names = database.rows("SELECT DISTINCT run_id FROM commits WHERE execution_id=?", (self.execution_id,))
            streams = {s: list(store.read(s)) for (run,) in names for s in (StreamId(self.execution_id, run or None),)}
            shown = sum(1 for _ in expand(history(store, self.execution_id), self.execution_id))
        assert shown == summary["events"], "the summary counts other events than the history shows"
        control = [e for c in streams[StreamId(self.execution_id)] for e in c.events]
        world: Any = SimpleNamespace(store=SimpleNamespace(streams=streams))
        invariants.i3_one_terminal_each(world, self.execution_id, control)
        invariants.i5_nothing_after_the_end(control)
        invariants.i6_arcs_are_evaluated_once(control)

    def ending(self) -> dict[str, Any]:
        done = self.begin("show", self.execution_id, "--output", "json")
        assert done.wait(PATIENCE_S) == 0, self.stderr
        return dict(json.loads((self.folder / "stdout").read_text()))


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    sys.stdout.write(f"{kill_runs(total, int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6) * 1000)}\n")
