"""`noetl replay`: decisions taken again, and the state at any event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli import files, output
from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backend import Backend, pages
from noetl_cli.backends import backend
from noetl_cli.errors import FAILED, UNREACHABLE, USAGE, Exit

if TYPE_CHECKING:
    from noetl_core.client.shapes import ExecutionState


@app.command()
def replay(
    id: Id,
    at: Annotated[str | None, typer.Option(help="Show the state just after this event", metavar="EVENT")] = None,
    playbook: Annotated[Path | None, typer.Option(help="Decide by this playbook instead", metavar="FILE")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "human",
) -> None:
    """Take every control decision of an execution again; exit code 1 when one comes out differently, 3 when its input is gone."""
    if at is not None and playbook is not None:
        raise Exit(USAGE, "--at shows what was recorded: it takes no --playbook")
    source = None
    if playbook is not None:
        source = files.playbook(playbook)
        files.check(source, playbook)
    with closing(backend(on, store, id)) as where:
        if at is not None:
            _show(where.api.state(id, at), output_)
            return
        found = _replayed(where, id, source)
    if output_ != "human":
        output.as_json(found)
    else:
        _tell(found, playbook)
    if found["differences"]:
        raise Exit(FAILED)
    if found["missing"]:
        raise Exit(UNREACHABLE)


def _replayed(where: Backend, id: str, source: str | None) -> dict[str, Any]:
    """The whole log, request by request."""
    found: dict[str, Any] = {"execution_id": id, "commits": 0, "differences": [], "missing": []}
    for part in pages(lambda after: where.api.replay(id, after=after, playbook=source)):
        found["commits"] += part["commits"]
        found["differences"] += part["differences"]
        found["missing"] += part["missing"]
    return found


def _tell(found: dict[str, Any], playbook: Path | None) -> None:
    by = "" if playbook is None else f" by {playbook}"
    for difference in found["differences"]:
        print(f"commit {difference['seq']} would be another one{by} ({difference['event_id']}):")
        for mark, events in (("recorded", difference["recorded"]), ("decided ", difference["decided"])):
            others = difference["decided" if mark == "recorded" else "recorded"]
            for event in events:
                if event not in others:
                    print(f"  {mark} {event['name']} {json.dumps(event['data'], ensure_ascii=False)}")
    for lacking in found["missing"]:
        print(f"commit {lacking['seq']} cannot be decided again ({lacking['event_id']}): what it read is gone")
        for reason in lacking["reasons"]:
            print(f"  {reason}")
    count = len(found["differences"])
    said = "no difference" if not count else f"{count} difference{'s' if count > 1 else ''}"
    print(f"{found['commits']} control commits decided again{by}: {said}")


def _show(state: ExecutionState, how: str) -> None:
    if how != "human":
        output.as_json(state)
        return
    print(f"{state['execution_id']} {state['status']}")
    for name, value in (("ctx", state["ctx"]), ("run", state.get("run"))):
        if value:
            print(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    steps: list[Mapping[str, Any]] = [{"step": name, **step} for name, step in state["steps"].items()]
    for title, rows in (("steps", steps), ("open runs", state["runs"]), ("tokens", state["tokens"])):
        if rows:
            output.table(rows, title)
