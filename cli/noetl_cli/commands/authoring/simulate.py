"""`noetl simulate`: the calls of a playbook that a killed worker makes twice, and the differences that result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noetl_cli.app import Output, app
from noetl_cli.display import output
from noetl_cli.errors import FAILED, USAGE, Exit

if TYPE_CHECKING:
    from noetl_core.testing.files import Case
    from noetl_core.testing.simulation import Simulation


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    only: Annotated[str | None, typer.Option("-k", help="Only cases whose name contains this text", metavar="TEXT")] = None,
    output_: Output = "text",
) -> None:
    """Kill the worker after each call of a tool, in the cases of a playbook's test file. Lists the calls that are made twice,
    with the changes to make, and the differences at the end. Exit code 1 if an end differs."""
    from noetl_core.testing.simulation import simulate as simulated  # 350 ms: needed only to simulate

    found = [simulated(case) for case in _cases(file, only)]
    if output_ != "text":
        output.as_data([*map(_data, found)], output_)
    else:
        _print(found)
    if any(one.broken or one.differs for one in found):
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
            USAGE, f"{tests}: there is no such file; its cases say what tools answer (`noetl record ID` writes one)"
        ) from None
    except (BadTests, InvalidPlaybook, OSError) as error:
        raise Exit(USAGE, str(error)) from None
    chosen = [case for case in cases if only is None or only.lower() in case.name.lower()]
    if not chosen:
        raise Exit(USAGE, f"-k {only}: none of {len(cases)} cases has such a name")
    yield from chosen


def _data(one: Simulation) -> dict[str, object]:
    repeats = [{**vars(repeat), "inputs": dict(repeat.inputs)} for repeat in one.repeats]
    return {"test": one.case, "kills": one.kills, "repeats": repeats, "differs": one.differs, "broken": one.broken}


def _print(found: list[Simulation]) -> None:
    """Print the tasks of all cases, each once, and the ends that differ."""
    kills, cases = sum(one.kills for one in found), output.plural(len(found), "case")
    print(output.styled(f"{output.plural(kills, 'kill')} in {cases}", "bold"))
    repeats = {repeat.task: repeat for one in found for repeat in one.repeats}
    for repeat in repeats.values():
        if repeat.remedy:
            print(f"{repeat.task} ({repeat.kind}) may be called twice, such as with the key {repeat.key}")
            print(f"  {repeat.remedy}")
    if harmless := [repeat.task for repeat in repeats.values() if not repeat.remedy]:
        print(f"may be called twice without harm: {', '.join(harmless)}")
    for one in found:
        if one.broken:
            print(f"{one.case}: cannot be simulated: {one.broken}")
        for text in one.differs:
            print(f"{one.case}: differs, {text}")
    if not any(one.broken or one.differs for one in found):
        print("every execution ends as without a kill")
