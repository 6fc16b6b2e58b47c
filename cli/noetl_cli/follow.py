"""Live progress while following an execution: steps, loop counters, rate, elapsed - on standard error."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from noetl_cli.backends import Backend
from noetl_core.observe.progress import Progress, StepProgress

if TYPE_CHECKING:
    from rich.live import Live

MARKS = {"ok": "[green]✓[/]", "error": "[red]✗[/]", "running": "[cyan]▶[/]", "waiting": "[yellow]◷[/]", "skipped": "[dim]–[/]"}
SHOW_AFTER_S = 0.3
"""A run shorter than this needs no picture."""


class Watch:
    """Reads new events at each tick and draws them; on a terminal as a live table, else a line per change."""

    def __init__(self, backend: Backend, execution_id: str, *, quiet: bool = False) -> None:
        self._backend, self._id, self._quiet = backend, execution_id, quiet
        self.progress = Progress()
        self._cursor: str | None = None
        self._began = time.monotonic()
        self._live: Live | None = None
        self._said: dict[str, str] = {}
        self._tty = sys.stderr.isatty()

    def tick(self) -> None:
        """Read and draw; called several times a second."""
        if self._quiet or (time.monotonic() - self._began < SHOW_AFTER_S):
            return
        self.read()
        self.draw()

    def read(self) -> None:
        """Feed what is new."""
        while True:
            query = {"after": self._cursor} if self._cursor else {}
            page = self._backend.get(f"executions/{self._id}/events", limit=1000, **query)
            self.progress.feed(page["events"])
            self._cursor = page["cursor"] or self._cursor
            if len(page["events"]) < 1000:
                return

    def draw(self) -> None:
        if self._tty:
            self._table()
            return
        for name, step in self.progress.steps.items():
            line = f"{name}: {step.status}" + (f" {step.done}/{step.total}" if step.total is not None else "")
            if self._said.get(name) != line:
                self._said[name] = line
                print(f"[{self.elapsed:6.1f} s] {line}", file=sys.stderr, flush=True)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def _table(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for name, step in self.progress.steps.items():
            table.add_row(MARKS.get(step.status, "·"), name, step.status, _loop(step), _work(step))
        done = sum(s.tasks for s in self.progress.steps.values())
        rate = done / self.elapsed if self.elapsed > 0 else 0
        table.add_row("", "[dim]elapsed[/]", f"[dim]{self.elapsed:.1f} s[/]", f"[dim]{done} tasks[/]", f"[dim]{rate:.0f}/s[/]")
        if self._live is None:
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(table, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def _loop(step: StepProgress) -> str:
    if step.total is None:
        return ""
    width = 20
    full = width if not step.total else round(width * step.done / step.total)
    failed = f" [red]{step.failed} failed[/]" if step.failed else ""
    return f"[green]{'━' * full}[/][dim]{'━' * (width - full)}[/] {step.done}/{step.total}{failed}"


def _work(step: StepProgress) -> str:
    retries = f", {step.retries} retries" if step.retries else ""
    return f"{step.tasks} tasks{retries}" if step.tasks else ""


def as_json(value: Any) -> str:
    """One line of JSON, readable as text."""
    import json

    return json.dumps(value, ensure_ascii=False, default=str)
