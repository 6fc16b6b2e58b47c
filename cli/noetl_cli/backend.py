"""What commands need of where executions are, and how its refusals end a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from noetl_cli.errors import FAILED, UNREACHABLE, USAGE, Exit

if TYPE_CHECKING:
    from noetl_core.client.api import Api
    from noetl_core.client.shapes import Event, Events, Started
    from noetl_core.client.view_shapes import Logs, Replay
    from noetl_core.dsl.versions import Version

    Page = TypeVar("Page", Events, Logs, Replay)

POLL_S = 0.2
PAGE = 1000
"""Events asked for at once: the API's limit."""
Tick = Callable[[], None]


class Backend(Protocol):
    """What commands need of a wiring. All raise `Exit` with the right code."""

    name: str

    @property
    def api(self) -> Api:
        """Every operation of the API."""
        ...

    @property
    def novel(self) -> str:
        """Where state is kept, in words, when that is news."""
        ...

    @property
    def absent(self) -> str:
        """Where state was looked for, in words, when there is none yet."""
        ...

    def start(
        self,
        *,
        source: str | None,
        path: str | None,
        version: Version,
        payload: dict[str, Any],
        key: str | None,
        priority: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Started:
        """Start an execution that this process follows."""
        ...

    def follow(self, execution_id: str, timeout: float | None, tick: Tick) -> None:
        """Until the execution ends or stands still for a reason; raises `Exit(124)` when `timeout` comes first."""
        ...

    def news(self, execution_id: str) -> Callable[[], list[Mapping[str, Any]]] | None:
        """Envelopes as this process makes them, when it carries the execution out itself; None: ask for them."""
        ...

    def history(self, execution_id: str, name: str | None = None, after: str | None = None) -> Iterator[Event]:
        """Yield every envelope of an execution while they are read, each commit once."""
        ...

    def close(self) -> None: ...


def pages(ask: Callable[[str | None], Page], after: str | None = None) -> Iterator[Page]:
    """Yield the pages that `ask` returns for the cursor of the page before, as long as there is more now."""
    while True:
        page = ask(after)
        yield page
        after = page["cursor"]
        if after is None or not page.get("more", True):
            return


def refused(status: int, message: str, details: Iterable[Mapping[str, Any]]) -> Exit:
    """How a command ends whose request was refused."""
    lines = [message]
    for d in details:
        hint = f" ({d['hint']})" if d.get("hint") else ""
        if d["message"] in message:  # it says the same of a part of the request
            lines[0] += hint if hint not in lines[0] else ""
            continue
        loc = "" if d["loc"].startswith("path.") else f"{d['loc']} "  # a part of the URL is no place of the caller's
        lines.append(f"{loc}{d.get('code', '')} {d['message']}{hint}".replace("  ", " ").strip())
    code = UNREACHABLE if status >= 500 or status in (401, 403, 429) else FAILED if status == 409 else USAGE
    return Exit(code, "\n".join(lines))
