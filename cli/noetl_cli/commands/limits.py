"""The command about limits that executions share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import On, Output, Store, app
from noetl_cli.backends.opening import backend
from noetl_cli.display import output
from noetl_cli.errors import say

if TYPE_CHECKING:
    from noetl_core.api.shapes.limits import LimitHolder, LimitInUse


@app.command()
def limits(
    key: Annotated[str | None, typer.Argument(help="Show only this limit, with its holders and waiters")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Show limits that executions share: who holds places, who waits for whom, how far rates are reserved."""
    with closing(backend(on or "local", store)) as where:
        found = where.api.limits(key)
        absent = where.missing_store
    if output_ in ("json", "yaml"):
        output.as_data(found, output_)
        return
    rows = [row for limit in found["limits"] for row in (_all if key is None else holders_and_waiters)(limit)]
    for rate in found["rates"]:
        reserved = f"reserved for {rate['behind_s']:.1f} s" if rate["behind_s"] > 0 else ""
        if key is None:
            rows.append({"limit": rate["key"], "kind": "rate", "in use": f"{rate['per_second']:g}/s", "waiting": reserved})
        else:
            rows.append({"execution": "", "holder": f"rate {rate['per_second']:g}/s", "state": reserved})
    if rows or output_ != "text":
        output.rows(rows, output_)
    else:
        say(absent or ("no limit is in use" if key is None else f"limit {key} is not in use"))
    if any(limit.get("more") for limit in found["limits"]):
        say("more wait after these")


def _all(limit: LimitInUse) -> Iterator[dict[str, Any]]:
    """Yield one row for a limit."""
    waits = "some wait" if limit["waiting"] else ""
    yield {"limit": limit["key"], "kind": "concurrency", "in use": f"{limit['held']}/{limit['max']}", "waiting": waits}


def holders_and_waiters(limit: LimitInUse) -> Iterator[dict[str, Any]]:
    """Yield a row for each holder and waiter."""
    for held in limit.get("holders", ()):
        yield {"execution": held["execution_id"], "holder": held["holder"], "state": f"since {held.get('since')}{_leaves(held)}"}
    for n, waits in enumerate(limit.get("waiters", ()), 1):
        yield {"execution": waits["execution_id"], "holder": waits["holder"], "state": f"waits, {output.nth(n)}{_leaves(waits)}"}


def _leaves(who: LimitHolder) -> str:
    """Return a note that a holder is about to end because it was displaced; empty otherwise."""
    return f", displaced by {who['displaced_by']}" if "displaced_by" in who else ""
