"""Live progress of an execution, on standard error: a live table at a terminal, lines elsewhere."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl_cli.backends.backend import PAGE, Backend
from noetl_cli.display import output
from noetl_cli.display.execution_output import print_execution
from noetl_cli.display.notices import Notices
from noetl_cli.display.progress import Progress, StepProgress
from noetl_cli.errors import COMPLETED, FAILED, Exit, OutputLost, say
from noetl_core.adapters.clock import SteadyClock

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

News = Callable[[], Sequence[Mapping[str, Any]]]
"""Returns the envelopes since the last call."""
MARKS = {"ok": "[green]✓[/]", "error": "[red]✗[/]", "skipped": "[dim]–[/]", "waiting": "[yellow]◷[/]"}
SHOW_AFTER_S = 0.3
"""Executions shorter than this show no live table."""
LINE_EVERY_S = 5.0
"""Without a terminal, a running loop reports its progress this often."""
LOOK_S = 2.0
"""The time limit for reading new events at the end, so that the summary does not wait for the display."""
BAR = 16


def polled(backend: Backend, execution_id: str) -> News:
    """Return a source of new envelopes that polls the API."""
    cursor: str | None = None
    over = False

    def read() -> list[Mapping[str, Any]]:
        nonlocal cursor, over
        found: list[Mapping[str, Any]] = []
        until = time.monotonic() + LOOK_S
        while not over:
            page = backend.api.events(execution_id, after=cursor, limit=PAGE)
            found += page["events"]
            cursor = page["cursor"]
            over = cursor is None  # the execution has ended, and this was the last page
            if not page["more"] or time.monotonic() > until:
                break
        return found

    return read


class Watch:
    """Reads new events at each tick and shows them. `quiet`: only at a terminal (standard output is for a program)."""

    def __init__(
        self,
        backend: Backend,
        execution_id: str,
        news: News | None = None,
        *,
        quiet: bool = False,
        places: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        self._tty = sys.stderr.isatty()
        self.silent = quiet and not self._tty
        self._news: News = list
        if not self.silent:
            self._news = news or backend.news(execution_id) or polled(backend, execution_id)
        self.progress = Progress()
        self._notices = Notices(backend, execution_id, places)
        self._clock = SteadyClock()
        self._began = time.monotonic()
        self._last_line_at = self._began
        self._last_lines: dict[str, str] = {}
        self._waited_for = ""
        self._on = output.on_option(backend.name)
        self._live: Live | None = None
        self._lock = threading.Lock()

    def tick(self) -> None:
        """Read and show new events. One thread at a time calls this, several times a second."""
        if self.silent or time.monotonic() - self._began < SHOW_AFTER_S:
            return
        with self._lock:
            new = self._news()
            ended = self.progress.observe(new)
            for line in self._notices.read(new):
                self._notice(line)
            if self._tty:
                self._draw()
            else:
                self._say(ended)

    def close(self) -> None:
        """Read and show once more, if anything was shown at all; then leave the screen to later output."""
        self.tick()
        if self._live is not None:
            self._live.stop()

    def _notice(self, line: str) -> None:
        """Show a line that stays, above the table where there is one."""
        if self._live is None:
            say(line)
        else:
            self._live.console.print(line, markup=False, highlight=False)

    def _now(self) -> float:
        """Return seconds since the epoch, as events have them."""
        return self._clock.now() / 1_000_000

    def _say(self, ended: Sequence[StepProgress]) -> None:
        now = self._now()
        if self.progress.limit != self._waited_for:
            self._waited_for = self.progress.limit
            begun = f"[{max(0.0, now - (self.progress.began or now)):7.1f} s]"
            asked = f"noetl limits {shlex.quote(self._waited_for)}{self._on}"
            line = f"waits for limit {self._waited_for} (`{asked}` shows who holds it)"
            say(f"{begun} {line}" if self._waited_for else f"{begun} the wait for the limit is over")
        lines = [(s, s.ended or now) for s in ended]
        if not lines and time.monotonic() - self._last_line_at > LINE_EVERY_S:
            lines = [(s, now) for s in self.progress.steps.values() if s.open]
        for step, at in lines:
            self._last_line_at = time.monotonic()
            since = max(0.0, at - (self.progress.began or at))
            line = f"{step.name}: {step.status} {counts(step, at)}".rstrip()
            if line != self._last_lines.get(step.name):  # a waiting execution is reported once
                say(f"[{since:7.1f} s] {line}")
                self._last_lines[step.name] = line

    def _draw(self) -> None:
        if self._live is None:
            from rich.console import Console  # 140 ms, with the next: only a terminal shows it
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
            self._live.start()
        self._live.update(self._table(), refresh=True)

    def _table(self) -> RenderableType:
        from rich.markup import escape  # 60 ms, with the next: only a terminal shows it
        from rich.table import Table

        p, now = self.progress, self._now()
        table = Table.grid(padding=(0, 2))
        for step in p.steps.values():
            mark = MARKS.get(step.status, "[cyan]▶[/]")
            table.add_row(mark, escape(step.name), _bar(step), counts(step, now), f"[dim]{step.seconds(now):.1f} s[/]")
        elapsed = max(0.0, (p.ended or now) - (p.began or now))
        tasks = sum(s.tasks for s in p.steps.values())
        rate = f"{tasks / elapsed:,.0f} tasks/s" if elapsed > 0 else ""
        table.add_row(
            "",
            f"[dim]{escape(f'waits for limit {p.limit}') if p.limit else p.status}[/]",
            "",
            f"[dim]{tasks:,} tasks, {rate}[/]",
            f"[dim]{elapsed:.1f} s[/]",
        )
        return table


def ended(where: Backend, execution_id: str, how: str, events: bool, file: Path | None = None) -> None:
    """Print the summary, with the events if asked; `file` has the playbook. Raises `Exit(1)` when the execution did not
    complete."""
    summary: dict[str, Any] = {**where.api.execution(execution_id)}
    if events:
        summary["event_log"] = list(where.history(execution_id))
    code = COMPLETED if summary["status"] == "completed" else FAILED
    try:
        if how != "text":
            output.as_data(summary, how)
        else:
            print_execution(where, summary, file)
            for event in summary.get("event_log", ()):
                print(output.event_line(event))
        sys.stdout.flush()
    except OutputLost as lost:
        lost.code = code
        lost.remedy = f"execution {execution_id} {summary['status']}, and `noetl show {execution_id}` has its result"
        raise
    if code != COMPLETED:
        raise Exit(code)


def counts(step: StepProgress, now: float) -> str:
    """Return the counts: `7/12 3.1/s, 175 tasks, 4 retries`."""
    words = []
    seconds = step.seconds(now)
    if step.total is not None:
        rate = f" {step.done / seconds:,.1f}/s" if seconds > 0.5 and step.done else ""
        claimed = f" rows of {step.frames:,} frame{'s' if step.frames > 1 else ''}" if step.frames else ""
        words.append(f"{step.done:,}/{step.total:,}{claimed}{rate}")
    elif step.runs > 1:
        words.append(f"{step.runs} runs")
    for number, word in ((step.failed, "failed"), (step.tasks if step.tasks > 1 else 0, "tasks"), (step.retries, "retries")):
        if number:
            words.append(f"{number:,} {word}")
    return ", ".join(words)


def _bar(step: StepProgress) -> str:
    if not step.total:
        return ""
    full = min(BAR, round(BAR * step.done / step.total))
    return f"[green]{'━' * full}[/][dim]{'━' * (BAR - full)}[/]"
