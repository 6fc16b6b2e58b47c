"""`noetl rehearse`: recorded executions played with an edited playbook; `noetl bisect`: the input or answer by which two
executions differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import ExecutionId, On, Output, Store, app
from noetl_cli.backends.opening import backend, execution, in_full
from noetl_cli.commands.authoring.record import recorded_execution
from noetl_cli.display import output
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_cli.inputs import files
from noetl_core.engine.statuses import TERMINAL

if TYPE_CHECKING:
    from noetl_cli.backends.backend import Backend
    from noetl_core.testing.rehearsal import Rehearsed

EXAMPLES = 3
"""Executions that are named for a change."""


@app.command()
def rehearse(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    last: Annotated[int, typer.Option(help="Number of newest executions to play", min=1, metavar="N")] = 100,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Play the newest executions of a playbook again with its edited file: report those that take another path, end differently,
    or make calls that were not recorded. Tasks answer as recorded; nothing outside is called. Exit code 1 if any differs."""
    file = file / "playbook.yaml" if file.is_dir() else file
    source = files.with_libraries(files.playbook(file), file)
    playbook = files.check(source, file)
    with closing(backend(on or "local", store)) as where:
        found = list(_rehearsed(where, playbook.path, source, last))
    if not found:
        raise Exit(USAGE, f"no execution of {playbook.path} has ended on {where.name}")
    if output_ != "text":
        output.as_data([vars(one) for one in found], output_)
    else:
        _print(found)
    if any(one.changes or one.unknown for one in found):
        raise Exit(FAILED)


def _rehearsed(where: Backend, path: str, source: str, last: int) -> Iterator[Rehearsed]:
    from noetl_core.testing.rehearsal import Rehearsed, rehearse  # 350 ms: needed only to rehearse

    cursor, left = None, last
    while left > 0:
        page = where.api.executions(path=path, limit=min(left, 100), cursor=cursor)
        for each in page["executions"]:
            if each["status"] in TERMINAL and left > 0:
                left -= 1
                try:
                    yield rehearse(recorded_execution(where, each["execution_id"]), source)
                except Exit as wrong:
                    yield Rehearsed(each["execution_id"], skipped=wrong.message)
        cursor = page["cursor"]
        if cursor is None:
            return


def _print(found: list[Rehearsed]) -> None:
    """Print each change with the executions that have it, the most frequent first."""
    same = sum(one.same for one in found)
    skipped = sum(bool(one.skipped) for one in found)
    counts = f"{same} as before, {len(found) - same - skipped} not" + (f", {skipped} not played" if skipped else "")
    print(output.styled(f"{output.plural(len(found), 'execution')}: {counts}", "bold"))
    by_change: dict[str, list[str]] = {}
    for one in found:
        for text in (*one.changes, *(f"calls {task}, which it had not called: its answer is unknown" for task in one.unknown)):
            by_change.setdefault(text, []).append(one.execution_id)
        if one.skipped:
            by_change.setdefault(f"not played: {one.skipped}", []).append(one.execution_id)
    for text, ids in sorted(by_change.items(), key=lambda item: -len(item[1])):
        more = f" and {len(ids) - EXAMPLES} more" if len(ids) > EXAMPLES else ""
        print(f"{len(ids):>5}  {text}\n       {', '.join(ids[:EXAMPLES])}{more}")


@app.command()
def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", click_type=ExecutionId())],
    bad: Annotated[str, typer.Argument(metavar="BAD", click_type=ExecutionId())],
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Name the one input or answer with which a good execution ends like a bad one. Nothing outside is called."""
    from noetl_core.testing.rehearsal import NoDifference  # 350 ms, with the next: needed only to compare
    from noetl_core.testing.rehearsal import bisect as bisected

    with execution(good, on, store) as (where, id):
        try:
            one, other = recorded_execution(where, id), recorded_execution(where, in_full(where, bad))
            paths = [each.executions[0][0].path for each in (one, other)]
            if paths[0] != paths[1]:
                raise Exit(
                    USAGE,
                    f"these are executions of two playbooks, {paths[0]} and {paths[1]}: name two executions of one playbook",
                )
            found = bisected(one, other)
        except NoDifference as error:
            raise Exit(FAILED, str(error)) from None
    if output_ != "text":
        output.as_data(vars(found), output_)
        return
    print(output.styled(found.what, "bold"))
    _part("good", found.good)
    _part("bad", found.bad)
    if found.with_others:
        print(
            f"this makes the difference only together with {output.plural(found.with_others, 'other value')} of the bad execution"
        )
    say(f"{output.plural(found.tried, 'execution')} played")


def _part(title: str, value: Any) -> None:
    print(f"{title}:")
    output.result(value)
