"""The interface through which commands reach executions, and the translation of its refusals to exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from noetl_cli.errors import FAILED, UNREACHABLE, USAGE, Exit

if TYPE_CHECKING:
    from noetl_core.api.requests import Api
    from noetl_core.api.shapes.executions import Event, Events
    from noetl_core.api.shapes.views import Logs, Replay

    Page = TypeVar("Page", Events, Logs, Replay)

POLL_S = 0.2
PAGE = 1000
"""Events per request: the API's limit."""
Tick = Callable[[], None]


class Backend(Protocol):
    """Access to executions. All methods raise `Exit` with the right code."""

    name: str

    @property
    def api(self) -> Api:
        """Every operation of the API."""
        ...

    @property
    def new_store(self) -> str:
        """A description of the store's place; empty unless the store is new or in a folder above."""
        ...

    @property
    def missing_store(self) -> str:
        """A description of the places searched for a store; empty if there is one."""
        ...

    def follow(self, execution_id: str, timeout: float | None, tick: Tick) -> None:
        """Wait until the execution ends, or waits for an operator. Raises `Exit(124)` at `timeout`."""
        ...

    def news(self, execution_id: str) -> Callable[[], list[Mapping[str, Any]]] | None:
        """Return a source of new envelopes if this process carries out the execution itself; None: poll the history."""
        ...

    def history(self, execution_id: str, name: str | None = None, after: str | None = None) -> Iterator[Event]:
        """Yield every envelope of an execution, reading on demand, each commit once."""
        ...

    def close(self) -> None: ...


def pages(ask: Callable[[str | None], Page], after: str | None = None) -> Iterator[Page]:
    """Yield the pages that `ask` returns for the cursor of the previous page, as long as there are more now."""
    while True:
        page = ask(after)
        yield page
        after = page["cursor"]
        if after is None or not page.get("more", True):
            return


def refused(status: int, message: str, details: Iterable[Mapping[str, Any]]) -> Exit:
    """Return the `Exit` of a command whose request was refused."""
    lines = [message]
    for d in details:
        hint = f" ({d['hint']})" if d.get("hint") else ""
        if d["message"] in message:  # the message already contains this detail
            lines[0] += hint if hint not in lines[0] else ""
            continue
        loc = "" if d["loc"].startswith("path.") else f"{d['loc']} "  # the caller did not write the URL
        lines.append(f"{loc}{d.get('code', '')} {d['message']}{hint}".replace("  ", " ").strip())
    code = UNREACHABLE if status >= 500 or status in (401, 403, 429) else FAILED if status == 409 else USAGE
    return Exit(code, "\n".join(lines))
