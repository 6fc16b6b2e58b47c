"""Filters events and logs, and follows new ones."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from noetl_cli.backends.backend import POLL_S
from noetl_cli.errors import USAGE, Exit
from noetl_core.values.instants import from_text

_AGE: Final = re.compile(r"(\d{1,6})\s*([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_PATH: Final = re.compile(r"@?(\d{1,9}(?:\.\d{1,9})*)")

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow new entries until the execution ends")]
OfStep = Annotated[str | None, typer.Option("--step", help="Only this step", metavar="STEP")]
OfTask = Annotated[str | None, typer.Option("--task", help="Only this task", metavar="TASK")]
OfIteration = Annotated[str | None, typer.Option("--iteration", help="Only this iteration and those inside it", metavar="3|0.3")]
Failed = Annotated[bool, typer.Option("--failed", help="Only failures")]
Tail = Annotated[int | None, typer.Option("--tail", min=0, help="Only the last N; with -f, also new ones", metavar="N")]
Since = Annotated[
    str | None, typer.Option("--since", help="Since an instant, or since this long ago: 10m", metavar="INSTANT|AGE")
]


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a history."""

    step: str | None = None
    task: str | None = None
    iteration: tuple[int, ...] = ()
    failed: bool = False
    since: datetime | None = None

    @classmethod
    def of(cls, step: str | None, task: str | None, iteration: str | None, failed: bool, since: str | None) -> Filter:
        """Return the filter of a command's options. Raises `Exit(2)`."""
        path = () if iteration is None else _path(iteration)
        return cls(step, task, path, failed, None if since is None else _instant(since))

    def fits(self, entry: Mapping[str, Any]) -> bool:
        """Return whether an event, or the log of an attempt, is shown."""
        if self.step is not None and entry.get("step") != self.step:
            return False
        if self.task is not None and entry.get("task") != self.task:
            return False
        if self.iteration and tuple(entry.get("iteration") or ())[: len(self.iteration)] != self.iteration:
            return False
        if self.failed and entry.get("status") != "error":
            return False
        return self.since is None or from_text(entry["timestamp"]) >= self.since


Page = Callable[[str | None], tuple[list[Any], str | None, bool]]
"""Returns, for a cursor, entries, the next cursor (None: the execution has ended), and whether there are more now."""


def followed(page: Page, wanted: Filter, *, follow: bool, tail: int | None, after: str | None = None) -> Iterator[Any]:
    """Yield matching entries, all existing ones or the last `tail`; with `follow`, then new ones until the execution ends."""
    last: deque[Any] | None = None if tail is None else deque(maxlen=tail)
    while True:
        found, after, more = page(after)
        for entry in filter(wanted.fits, found):
            if last is None:
                yield entry
            else:
                last.append(entry)
        if more and after is not None:
            continue
        if last is not None:
            yield from last
            last = None
        if after is None or not follow:
            return
        time.sleep(POLL_S)


def _path(text: str) -> tuple[int, ...]:
    match = _PATH.fullmatch(text)
    if match is None:
        raise Exit(USAGE, f"--iteration {text}: write indexes, for example 3 or 0.3")
    return tuple(int(part) for part in match[1].split("."))


def _instant(text: str) -> datetime:
    age = _AGE.fullmatch(text)
    if age is not None:
        return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        return from_text(text)
    except ValueError:
        raise Exit(USAGE, f"--since {text}: write an instant (2026-01-02T03:04:05Z) or an age (10m)") from None
