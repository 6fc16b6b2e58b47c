"""Prints one step of an execution for people: totals of its runs and iterations, and failed iterations by error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from noetl_cli.display import output
from noetl_cli.errors import say
from noetl_core.values.result_refs import is_reference

if TYPE_CHECKING:
    from noetl_cli.backends.backend import Backend
    from noetl_core.api.shapes.steps import Iterations
    from noetl_core.api.shapes.views import StepAggregates

LARGEST: Final = 8 * 1024 * 1024
"""The largest collection that is read to show its items."""
PAGE: Final = 1_000
NAMED: Final = 50
"""The most failed iterations of a group that are named one by one."""


def show_step(where: Backend, id: str, step: str, *, failed: bool, how: str) -> None:
    """Print a step."""
    found = where.api.step_summary(id, step)
    groups = list(_groups(where, id, step)) if failed else []
    if how != "text":
        output.as_data({**found, **({"failed_iterations": groups} if failed else {})}, how)
        return
    _counts(found)
    if failed:
        _failed(groups)
    else:
        _errors(found)
    on = output.on_option(where.name)
    if not failed and found.get("loop", {}).get("failed"):
        print(
            output.styled(
                f"which failed: noetl show {id} {step} --failed{on} · run again: noetl redrive {id} --from {step}@INDEX{on}",
                "dim",
            )
        )


def _counts(found: StepAggregates) -> None:
    runs = f"{found['visits']} run{'s' if found['visits'] != 1 else ''}"
    print(
        f"{found['step']}: {output.styled(found['status'], 'bold')}, {runs}"
        + (f", {found['open']} open" if found["open"] else "")
    )
    if (loop := found.get("loop")) is not None:
        print(f"{loop['total']:,} iterations: {loop['succeeded']:,} succeeded, {loop['failed']:,} failed")
    for name, totals in (("runs", found["runs"]), ("iterations", found.get("iterations"))):
        if totals is not None and totals["count"]:
            d = totals["duration_ms"]
            half = min(d["p50"], d["max"])  # p50 is a bound
            print(f"{name} took {d['mean']:,.1f} ms on average, half under {half:,.1f} ms, the longest {d['max']:,.1f} ms")
            if totals["retries"]:
                print(f"{totals['retries']:,} retries")


def _errors(found: StepAggregates) -> None:
    totals = found.get("iterations") or found["runs"]
    for group in totals["errors"]:
        first = f" (first: @{'.'.join(map(str, group['first']))})" if group.get("first") is not None else ""
        print(f"{group['count']:,} x {output.styled(group['kind'], 'red')}: {group['message']}{first}")
    if totals["other_errors"]:
        print(f"{totals['other_errors']:,} other errors")


def _groups(where: Backend, id: str, step: str) -> Iterator[dict[str, Any]]:
    """Yield failed iterations of the newest run grouped by error, the most frequent first, with their items."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    run: str | None = None
    for page in _pages(lambda after: where.api.iterations(id, step, status="error", after=after, limit=PAGE)):
        run = page["run"]
        for each in page["iterations"]:
            error: Mapping[str, Any] = each.get("error") or {}
            key = error.get("kind"), error.get("code"), error.get("task"), error.get("message")
            group = groups.setdefault(key, {"kind": key[0], "message": key[3], "task": key[2], "iterations": []})
            group["iterations"].append(each["path"])
    items = _items(where, id, step, run) if groups and run else None
    for group in sorted(groups.values(), key=lambda g: -len(g["iterations"])):
        group["iterations"].sort()
        if items is not None:
            group["items"] = [items[path[0]] if path[0] < len(items) else None for path in group["iterations"][:NAMED]]
        yield group


def _items(where: Backend, id: str, step: str, run: str) -> Sequence[Any] | None:
    """Return the rendered collection of a loop, from the beginning of its run; None if it is not in one piece, or too large."""
    for event in where.api.events(id, at=f"{id}.{run}.0.0", name="LoopCollected", step=step, limit=1)["events"]:
        items = event["data"]["items"]
        if isinstance(items, Mapping) and is_reference(items):
            from noetl_cli.display.download import loaded  # 10 ms: needed only with a large collection

            items = loaded(where.api, id, items) if items.get("size", 0) <= LARGEST else None
        return items if isinstance(items, list) and not event.get("iteration") else None
    return None


def _pages(ask: Callable[[str | None], Iterations]) -> Iterator[Iterations]:
    cursor: str | None = None
    while True:
        page = ask(cursor)
        yield page
        cursor = page["cursor"]
        if not page["more"] or cursor is None:
            return


def _failed(groups: Sequence[Mapping[str, Any]]) -> None:
    if not groups:
        say("no iteration failed")
    for group in groups:
        task = f" in task {group['task']}" if group.get("task") else ""
        print(f"\n{len(group['iterations']):,} x {output.styled(group['kind'], 'red')}{task}: {group['message']}")
        items = group.get("items", ())
        for number, path in enumerate(group["iterations"][:NAMED]):
            item = f"  {_item(items[number])}" if number < len(items) else ""
            print(f"  @{'.'.join(map(str, path))}{item}")
        if len(group["iterations"]) > NAMED:
            print(output.styled(f"  ... and {len(group['iterations']) - NAMED:,} more (--output json has all)", "dim"))


def _item(value: Any) -> str:
    if is_reference(value):
        return "(stored)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:99] + "…"
