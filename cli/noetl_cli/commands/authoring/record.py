"""Commands that make tests of executions: record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import Id, On, Store, app
from noetl_cli.backends.opening import execution
from noetl_cli.display.sources import Sources
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_core.engine.statuses import TERMINAL

if TYPE_CHECKING:
    from noetl_cli.backends.backend import Backend
    from noetl_core.dsl.model import Playbook
    from noetl_core.testing.files import Case
    from noetl_core.testing.recording import Recorded, Test


@app.command()
def record(
    id: Id,
    to: Annotated[
        Path | None, typer.Option("--as", help="The test file; the case is added to an existing one", metavar="FILE")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The name of the case", metavar="TEXT")] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Check that the test fails with the playbook before the redrive that changed it")
    ] = False,
    on: On = None,
    store: Store = None,
) -> None:
    """Make a test from an execution, with the answers that its tasks got, and check that the test replays it."""
    from noetl_core.testing.files import SUFFIX  # 350 ms: needed only to record

    with execution(id, on, store) as (where, id):
        recorded = recorded_execution(where, id)
        broken = _text_before_fix(where, recorded) if fix else None
        files = _playbook_files(recorded, where)
        file = to or files[0].with_name(files[0].stem + SUFFIX)
        if not file.name.endswith(SUFFIX):
            raise Exit(USAGE, f"--as {file}: the name of a test file ends with {SUFFIX}")
        known = _names(file)
        title = name or f"execution {id}"
        if title in known:
            raise Exit(USAGE, f"{file} has a test {title!r} already: --name gives this one another name")
        _write_replaying(recorded, file, files[0], title)
        if broken is not None:
            _check_red(file, title, *broken)


def _text_before_fix(where: Backend, recorded: Recorded) -> tuple[int, str]:
    """Return the version of the playbook, with its text, before the last redrive that changed it. Raises `Exit(2)`."""
    versions = [
        event["data"]["version"]
        for event in recorded.executions[0][1]
        if event["data"].get("digest") and event["data"].get("version")
    ]
    if len(versions) < 2:
        raise Exit(USAGE, "--fix: no redrive of this execution has changed its playbook (noetl redrive ID --playbook FILE)")
    return versions[-2], where.api.playbook(recorded.executions[0][0].path, versions[-2])["source"]


def _check_red(file: Path, name: str, version: int, text: str) -> None:
    """Check that the test fails with the text. Raises `Exit(1)`."""
    from noetl_core.testing.suite import run_case  # 350 ms, as above

    result = run_case(next(case for case in _cases(file) if case.name == name), text)
    if result.passed:
        raise Exit(FAILED, f"{file}: the test {name!r} passes with version {version}, too: it does not show the fix")
    print(f"with version {version} the test fails: {result.findings[0].text.splitlines()[0]}")


def recorded_execution(where: Backend, id: str) -> Recorded:
    """Return the records of an execution and its children in the backend. Raises `Exit`."""
    from noetl_cli.display.download import whole  # 350 ms, with the next: needed only to record
    from noetl_core.testing.recording import Recorded

    summary = where.api.execution(id)
    if summary["status"] not in TERMINAL:
        raise Exit(USAGE, f"execution {id} is {summary['status']}: only an execution that has ended can be recorded")
    executions: list[tuple[Playbook, list[Any]]] = []
    source = ""
    texts: dict[str, str] = {}
    for each in _family(where, id):
        version = summary["playbook"] if each == id else where.api.execution(each)["playbook"]
        text = where.api.playbook(version["path"], version["version"] or None)["source"]
        source = source or text
        texts[version["path"]] = text
        executions.append((_model(text, version["path"]), list(where.history(each))))
    return Recorded(summary, source, executions, lambda of, value: whole(where.api, of, value), texts)


def _family(where: Backend, id: str) -> Iterator[str]:
    """Yield an execution and the children that it waited for, with theirs."""
    yield id
    for event in where.history(id, name="ChildRequested"):
        with suppress(Exit):  # the child was never started
            where.api.execution(event["data"]["child"])
            yield from _family(where, event["data"]["child"])


def _model(text: str, path: str) -> Playbook:
    from noetl_core.dsl.parse import parse_playbook  # 250 ms: needed only to read a playbook

    return parse_playbook(text, path, programs=False, lenient=True)


def _playbook_files(recorded: Recorded, where: Backend) -> list[Path]:
    """Return the files of the playbooks, in this folder; those that have none are written."""
    files = []
    for playbook in dict.fromkeys(playbook.path for playbook, _ in recorded.executions):
        found = Sources().file_of(playbook)
        if found is None:
            found = Path(playbook.rpartition("/")[2] + ".yaml")
            if found.exists():
                raise Exit(USAGE, f"{found} is there, and is not the playbook {playbook}: record in the folder of the playbook")
            found.write_text(where.api.playbook(playbook)["source"], "utf-8")
            say(f"{found}: the playbook, as the catalog has it")
        files.append(found)
    return files


def _names(file: Path) -> list[str]:
    if not file.exists():
        return []
    return [case.name for case in _cases(file)]


def _cases(file: Path) -> list[Case]:
    from noetl_core.dsl.reading.diagnostics import InvalidPlaybook  # 350 ms, as above
    from noetl_core.testing.files import BadTests, read

    try:
        return read(file)
    except (BadTests, InvalidPlaybook) as error:
        raise Exit(USAGE, str(error)) from None
    except OSError as error:
        raise Exit(USAGE, f"{file}: {error.strerror}") from None


def _write_replaying(recorded: Recorded, file: Path, playbook: Path, name: str) -> None:
    """Write the test in the first way in which it replays. Raises `Exit(1)` if there is none, after writing it in the first."""
    from noetl_core.testing.recording import WAYS, record  # 350 ms, as above
    from noetl_core.testing.suite import run_case

    before = file.read_text("utf-8") if file.exists() else ""
    folder = file.name.removesuffix(".yaml").replace(".test", "") + ".values"
    relative = os.path.relpath(playbook, file.parent)
    first: list[str] = []
    for way in WAYS:
        test = record(recorded, name, relative, way, folder)
        _write(test, file, before)
        result = run_case(next(case for case in _cases(file) if case.name == name))
        if result.passed:
            print(f"{file}: the test {name!r} replays the execution")
            return
        first = first or [f"{file}:{finding.line or result.line}: {finding.text}" for finding in result.findings]
        _remove(test, file)
    _write(record(recorded, name, relative, WAYS[0], folder), file, before)
    raise Exit(FAILED, "\n".join([*first, f"{file}: the test {name!r} does not replay the execution: edit it"]))


def _write(test: Test, file: Path, before: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    for name, value in test.files.items():
        (file.parent / name).parent.mkdir(exist_ok=True)
        (file.parent / name).write_text(json.dumps(value, ensure_ascii=False) + "\n", "utf-8")
    separator = "---\n" if before.strip() else ""
    file.write_text(before + ("" if before.endswith("\n") or not before else "\n") + separator + test.text, "utf-8")


def _remove(test: Test, file: Path) -> None:
    """Remove the values of a test that does not replay, and their folder if it is empty."""
    for name in test.files:
        (file.parent / name).unlink(missing_ok=True)
        with suppress(OSError):
            (file.parent / name).parent.rmdir()
