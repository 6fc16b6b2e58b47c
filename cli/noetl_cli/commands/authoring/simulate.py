"""`noetl simulate`: a playbook under faults: the calls that are made twice, the races, and the ends that differ."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noetl_cli.app import Output, app
from noetl_cli.display import output
from noetl_cli.errors import FAILED, USAGE, Exit

if TYPE_CHECKING:
    from noetl_core.testing.files import Case
    from noetl_core.testing.simulation import Faults, Simulation


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    only: Annotated[str | None, typer.Option("-k", help="Only cases whose name contains this text", metavar="TEXT")] = None,
    kills: Annotated[int, typer.Option(min=0, help="Maximum number of kills per case", metavar="N")] = 200,
    twice: Annotated[bool, typer.Option("--twice/--no-twice", help="Deliver and call everything twice")] = True,
    orders: Annotated[int, typer.Option(min=0, help="Number of arrival orders per case", metavar="N")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the first arrival order", metavar="N")] = 1,
    timeout: Annotated[float, typer.Option(min=0, help="Start nothing more after this time", metavar="SECONDS")] = 60,
    output_: Output = "text",
) -> None:
    """Run the cases of a playbook's test file under faults: kill the worker after each call of a tool, deliver and call
    everything twice, and let messages arrive in other orders. Lists the calls that are made twice, the races, and the differences
    at the end, with the changes to make. Exit code 1 if an end differs."""
    from noetl_core.testing.simulation import Faults  # 350 ms, with the next: needed only to simulate
    from noetl_core.testing.simulation import simulate as simulated

    faults = Faults(kills, twice, orders, seed, time.monotonic() + timeout)
    found = [simulated(case, faults) for case in _cases(file, only)]
    if output_ != "text":
        output.as_data([*map(_data, found)], output_)
    else:
        _print(found, faults)
    if not all(one.ends_alike for one in found):
        raise Exit(FAILED)


def _cases(file: Path, only: str | None) -> Iterator[Case]:
    """Yield the cases of a test file, or of the one beside a playbook. Raises `Exit(2)`."""
    from noetl_core.dsl.reading.diagnostics import InvalidPlaybook  # 350 ms, with the next: needed only to simulate
    from noetl_core.testing.files import SUFFIX, BadTests, read

    file = file / "playbook.yaml" if file.is_dir() else file
    tests = file if file.name.endswith(SUFFIX) else file.with_name(file.stem + SUFFIX)
    try:
        cases = read(tests)
    except FileNotFoundError:
        raise Exit(
            USAGE, f"{tests}: there is no such file; its cases must define the answers of tools (`noetl record ID` writes one)"
        ) from None
    except (BadTests, InvalidPlaybook, OSError) as error:
        raise Exit(USAGE, str(error)) from None
    chosen = [case for case in cases if only is None or only.lower() in case.name.lower()]
    if not chosen:
        raise Exit(USAGE, f"-k {only}: none of {len(cases)} cases has such a name")
    yield from chosen


def _data(one: Simulation) -> dict[str, object]:
    repeats = [{**vars(repeat), "inputs": dict(repeat.inputs)} for repeat in one.repeats]
    known = {name: value for name, value in vars(one).items() if name != "case"}
    return {"test": one.case, **known, "repeats": repeats, "races": [*map(vars, one.races)]}


def _print(found: list[Simulation], faults: Faults) -> None:
    """Print the tasks of all cases, each once, and the ends that differ."""
    kills, orders = sum(one.kills for one in found), sum(one.orders for one in found)
    tried = [output.plural(kills, "kill"), *(["everything twice"] if faults.twice else []), output.plural(orders, "order")]
    print(output.styled(f"{', '.join(tried)} in {output.plural(len(found), 'case')}", "bold"))
    repeats = {repeat.task: repeat for one in found for repeat in one.repeats}
    for repeat in repeats.values():
        if repeat.remedy:
            print(f"{repeat.task} ({repeat.kind}) may be called twice, for example with the key {repeat.key}")
            print(f"  {repeat.remedy}")
    if harmless := [repeat.task for repeat in repeats.values() if not repeat.remedy]:
        print(f"may be called twice without harm: {', '.join(harmless)}")
    for one in found:
        if one.broken:
            print(f"{one.case}: cannot be simulated: {one.broken}")
        for text in one.differs:
            print(f"{one.case}: differs, {text}")
        for race in one.races:
            of = output.plural(one.orders, "order")
            print(f"{one.case}: ends differently in {len(race.seeds)} of {of} (--seed {race.seeds[0]})")
            for text in race.differs:
                print(f"  {text}")
            print(f"  {race.cause}: {race.remedy}")
    if left := sum(one.left for one in found):
        print(f"not tried, for lack of time: {output.plural(left, 'execution')} (--timeout)")
    if all(one.ends_alike for one in found):
        print(f"every {'other ' if left else ''}execution ends as without faults")
