"""The console's budgets in a headless browser: `python -m bench.console [--items 100000] [--steps 10000] [--times 5] [--docs]`.
An iteration is four events: `--items 250000` makes a history of a million.

It makes a local store with a wide graph and a long loop, serves its console, and looks at it as a user would. Times are those of
the browser, from asking for something until it is drawn. `--docs` writes the table of docs/console.md.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.figures import number, write_between
from playwright.sync_api import Page
from tests.console.browser import browser
from tests.console.http_requests import console

from noetl_console.assets import assets
from noetl_console.local import LocalApi
from noetl_console.server import Console
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring

FIRST_PAINT_S, SCRIPT_KB, GRAPH_S, FRAMES, HEAT_S, SEEK_S = 1.0, 112.0, 1.5, 30.0, 0.2, 0.3
ACROSS = 20
"""Steps side by side in the graph."""
PANNED_S = 3.0
DOCS = Path(__file__).parents[1] / "docs/console.md"
MARKS = ("<!-- figures: written by `python -m bench.console --docs` -->\n", "<!-- end of figures -->\n")
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass(frozen=True)
class Measured:
    """A figure, and what it may be; `least`: what it must be at least."""

    what: str
    value: float
    unit: str
    budget: float
    least: bool = False

    @property
    def kept(self) -> bool:
        return self.value >= self.budget if self.least else self.value <= self.budget

    def __str__(self) -> str:
        bound = "at least" if self.least else "at most"
        return f"{self.what:58} {self.value:9.3g} {self.unit:3} {bound} {self.budget:g} {'' if self.kept else ' <- MISSED'}"

    @property
    def row(self) -> str:
        """Return the measurement as a row of a Markdown table."""
        missed = "" if self.kept else ": not kept"
        value, goal = f"{number(self.value)} {self.unit}".strip(), f"{number(self.budget)} {self.unit}".strip()
        return f"| {self.what} | {value}{missed} | {goal} |\n"


def wide(steps: int) -> str:
    """A playbook of rows of steps, each of which leads to two of the next row."""
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: wide, path: bench/wide }\nworkflow:\n"
    rows = [[f"s{row}_{place}" for place in range(ACROSS)] for row in range(max(1, steps // ACROSS))]
    parts = ["  - step: start\n    tool: { kind: callback, signal: never }\n    next: { spec: { mode: inclusive }, arcs: ["]
    parts += [", ".join(f"{{ step: {name} }}" for name in rows[0]), "] }\n"]
    for row, names in enumerate(rows):
        for place, name in enumerate(names):
            parts.append(f"  - step: {name}\n    tool: {{ kind: noop }}\n")
            if row + 1 < len(rows):
                following = rows[row + 1]
                targets = {following[place], following[(place + 1) % ACROSS]}
                parts.append(f"    next: {{ arcs: [{', '.join(f'{{ step: {t} }}' for t in sorted(targets))}] }}\n")
    return head + "".join(parts)


def loop(items: int) -> str:
    """A playbook whose loop fails in a few iterations."""
    return (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: long, path: bench/long }\n"
        f"workload: {{ count: {items} }}\nworkflow:\n  - step: items\n"
        '    loop: { in: "{{ range(workload.count) | list }}", iterator: item,\n'
        "      spec: { policy: { failure: { mode: best_effort } } } }\n"
        '    tool: { kind: noop, result: "{{ 12 / (0 if iter.item % 9973 == 617 else 1) }}" }\n'
    )


@contextmanager
def served(steps: int, items: int) -> Iterator[tuple[Console, str, str]]:
    """A console, an execution of the wide graph and one of the long loop."""
    with tempfile.TemporaryDirectory(prefix="noetl-bench-") as folder:
        store = str(Path(folder) / "runs.db")
        wiring = LocalWiring(store)
        graph = wiring.start(StartRequest(playbook=wide(steps))).execution_id
        wiring.run(graph, timeout_s=1)
        long = wiring.start(StartRequest(playbook=loop(items))).execution_id
        wiring.run(long)
        wiring.close()
        api = LocalApi(store)
        try:
            with console(api) as server:
                yield server, graph, long
        finally:
            api.close()


def timed(page: Page, act: Callable[[], object], until: str) -> float:
    """Seconds from `act` until a selector is there and drawn."""
    began = time.perf_counter()
    act()
    page.wait_for_selector(until)
    page.evaluate(DRAWN)
    return time.perf_counter() - began


def measured(page: Page, server: Console, graph: str, long: str, times: int, steps: int, items: int) -> Iterator[Measured]:
    """All figures."""
    base = f"http://127.0.0.1:{server.server_port}/"
    page.goto(server.address())
    page.wait_for_selector("tbody tr")

    def median(act: Callable[[], float]) -> float:
        return statistics.median(act() for _ in range(times))

    def painted() -> float:
        page.goto("about:blank")
        page.goto(base)
        page.wait_for_selector("tbody tr")
        (paint,) = page.evaluate("() => performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)")
        return float(paint) / 1000

    yield Measured("first paint", median(painted), "s", FIRST_PAINT_S)
    yield Measured("scripts of all pages together, without the editor (gzip -6, file by file)", scripts() / 1024, "KB", SCRIPT_KB)

    def drawn() -> float:
        page.goto(f"{base}#/executions")
        page.wait_for_selector("tbody tr")
        return timed(page, lambda: page.goto(f"{base}#/executions/{graph}/graph"), "canvas[data-drawn]")

    yield Measured(f"a graph of {steps:,} steps, the first time in a process", drawn(), "s", GRAPH_S)
    yield Measured(f"a graph of {steps:,} steps, from the list of executions", median(drawn), "s", GRAPH_S)
    yield Measured("frames a second while the graph is panned, fully in sight", panned(page, far=True), "", FRAMES, least=True)
    yield Measured("frames a second while the graph is panned, names readable", panned(page, far=False), "", FRAMES, least=True)

    def heated() -> float:
        page.goto(f"{base}#/executions/{long}/logs")
        page.wait_for_selector(".log, .content")
        page.wait_for_load_state("networkidle")
        return timed(page, lambda: page.goto(f"{base}#/executions/{long}/iterations"), ".heat button")

    yield Measured(f"heat map of {items:,} iterations, from another view", median(heated), "s", HEAT_S)
    page.goto(f"{base}#/executions/{long}/graph")
    page.wait_for_selector("canvas[data-drawn]")
    slider = page.get_by_role("slider", name="Event")
    count = int(slider.get_attribute("max") or 0) + 1
    random = Random(7)

    def sought() -> float:
        position = random.randrange(count)
        return timed(page, lambda: slider.fill(str(position)), f".graph[data-at='{position}']")

    yield Measured(f"any position among {count:,} events, until the graph shows that position", median(sought), "s", SEEK_S)


def scripts() -> int:
    """Bytes of script, compressed, that all pages need without the editor, as they are sent."""
    bodies = [a.body for n, a in assets().items() if n.endswith(".js") and "codemirror" not in n]
    return sum(len(gzip.compress(body, 6)) for body in bodies)


def panned(page: Page, *, far: bool) -> float:
    """Frames a second while the graph is dragged."""
    page.get_by_role("button", name="All of it").click()
    if not far:
        for _ in range(12):
            page.get_by_role("button", name="Closer").click()
    else:
        for _ in range(12):
            page.get_by_role("button", name="Farther").click()
    box = page.locator("canvas[role=img]").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.evaluate(
        "() => { window.frames_ = 0; const count = () => { window.frames_ += 1; requestAnimationFrame(count) }; count() }"
    )
    page.mouse.move(x, y)
    page.mouse.down()
    began, before = time.perf_counter(), page.evaluate("() => window.frames_")
    while time.perf_counter() - began < PANNED_S:
        part = (time.perf_counter() - began) / PANNED_S
        page.mouse.move(x - 200 * part, y - 300 * part)
    frames = page.evaluate("() => window.frames_") - before
    elapsed = time.perf_counter() - began
    page.mouse.up()
    return float(frames / elapsed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    figures = []
    with served(options.steps, options.items) as (server, graph, long), browser() as started:
        page = started.new_context(viewport={"width": 1360, "height": 820}).new_page()
        page.set_default_timeout(60_000)
        for figure in measured(page, server, graph, long, options.times, options.steps, options.items):
            print(figure, flush=True)
            figures.append(figure)
    if options.docs:
        head = "| | measured | goal |\n|---|---|---|\n"
        write_between(MARKS, head + "".join(figure.row for figure in figures), DOCS)


if __name__ == "__main__":
    main()
