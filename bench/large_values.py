"""Measures large values: 20 MB of records through ten Python steps on the local runner, and through the same functions alone.

    python bench/large_values.py             # or the rows of `make bench`

The first step makes the records, and each of the nine others takes the records of the one before and returns new ones. *In
memory* is the functions alone, in one process. *Each result as JSON* encodes each result and decodes it for the next function, as
a program must whose functions are separate processes. Times are processor time of all processes, so other load on the machine
matters less.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, print_table
from local import wiring
from playbooks import written

from noetl_cli.main import YOUNG_OBJECTS
from noetl_core.control.admit import StartRequest

STEPS: Final = 10
RECORDS: Final = 150_000
"""20 MB of JSON."""
FIRST: Final = """\
def main(count):
    return [
        {"id": n, "name": f"record {n}", "place": {"shelf": n % 97, "row": n % 13}, "price": n * 0.25, "tags": ["new", "blue"],
         "note": "made for the benchmark"}
        for n in range(count)
    ]
"""
NEXT: Final = """\
def main(rows):
    out = []
    for row in rows:
        price = round(row["price"] * 1.01, 2)
        name = row["name"].upper().title()
        label = f"{name} at {price:.2f}: {', '.join(sorted(row['tags']))}, shelf {row['place']['shelf']}"
        out.append({**row, "name": name, "price": price, "note": label[:24].strip()})
    return out
"""


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds of a run, and its processor seconds: of the worker's process, and of the tasks' processes with the fork server."""

    seconds: float
    worker: float
    tasks: float

    @property
    def processor(self) -> float:
        return self.worker + self.tasks


def playbook(steps: int, records: int) -> str:
    """`steps` Python steps; each takes the result of the one before."""
    workflow: list[dict[str, Any]] = []
    for n in range(steps):
        args = {"rows": f"{{{{ steps.s{n - 1}.result }}}}"} if n else {"count": records}
        workflow.append({"step": f"s{n}", "tool": {"kind": "python", "args": args, "code": NEXT if n else FIRST}})
        if n + 1 < steps:
            workflow[-1]["next"] = {"arcs": [{"step": f"s{n + 1}"}]}
    result = {"executor": {"spec": {"result": {"rows": f"{{{{ steps.s{steps - 1}.result | length }}}}"}}}}
    text: str = written("large_values", {**result, "workflow": workflow})
    return text


def measured(steps: int = STEPS, records: int = RECORDS) -> Run:
    """Run the playbook on a fresh store. Raises `RuntimeError` if it fails."""
    source = playbook(steps, records)
    with wiring() as local:
        before, began, own = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), time.process_time()
        execution_id = local.start(StartRequest(playbook=source)).execution_id
        local.run(execution_id)
        seconds, worker = time.perf_counter() - began, time.process_time() - own
        if (status := local.control.load(execution_id).status) != "completed":
            raise RuntimeError(f"the measured playbook ended {status}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # the processes of the tasks have ended with the wiring
    return Run(seconds, worker, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def plain(between: Callable[[Any], Any] = lambda rows: rows, steps: int = STEPS, records: int = RECORDS) -> float:
    """Return the processor seconds of the same functions in this process, with `between` after each."""
    functions = [_function(NEXT if n else FIRST) for n in range(steps)]
    began = time.process_time()
    value: Any = records
    for function in functions:
        value = between(function(value))
    return time.process_time() - began


def _function(code: str) -> Callable[[Any], Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    function: Callable[[Any], Any] = names["main"]
    return function


def through_json(rows: Any) -> Any:
    """Return `rows` after they were encoded and decoded."""
    return json.loads(json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode())


def figures(times: int) -> list[Figure]:
    """All figures; some ten seconds for each of `times`."""
    measured(2, 10)  # imports and compiles
    gc.set_threshold(YOUNG_OBJECTS)  # as in `noetl run`
    runs = [(measured(), _normal(plain), _normal(lambda: plain(through_json))) for _ in range(times)]
    size = f"{len(json.dumps(_function(FIRST)(RECORDS), separators=(',', ':'))) / 1e6:.0f} MB"
    title = f"{size} through {STEPS} Python steps"
    worker, tasks = median(run.worker for run, *_ in runs), median(run.tasks for run, *_ in runs)
    return [
        Figure(title, "s", tuple(run.seconds for run, *_ in runs)),
        Figure("  processor time", "s", tuple(run.processor for run, *_ in runs), note=f"worker {worker:.3g}, tasks {tasks:.3g}"),
        Figure("  over plain Python, in memory", "x", tuple(run.processor / alone for run, alone, _ in runs), 2.0),
        Figure("  over plain Python, each result as JSON", "x", tuple(run.processor / coded for run, _, coded in runs)),
        Figure("  plain Python, in memory", "s", tuple(alone for _, alone, _ in runs)),
    ]


def _normal(measure: Callable[[], float]) -> float:
    """Measure with the garbage collector as a Python process has it."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        return measure()
    finally:
        gc.set_threshold(*before)


if __name__ == "__main__":
    load = os.getloadavg()[0]
    print(f"load {load:.1f} on {os.cpu_count()} processors")
    print_table("Large values (local runner)", figures(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
