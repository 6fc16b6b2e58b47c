"""`noetl dev`: watches a playbook, and after each change validates it, tests it, and runs it again from the first changed
step. The console shows the execution."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noetl_cli.app import Store, app
from noetl_cli.backends.local_store import IN_MEMORY
from noetl_cli.backends.opening import backend
from noetl_cli.commands.authoring.testing import WATCH_S, WATCHED, TestOptions, run_tests
from noetl_cli.commands.console import api_of, begin, end, show
from noetl_cli.commands.operate import redrive
from noetl_cli.commands.run import RunOptions, start_and_follow
from noetl_cli.display import output
from noetl_cli.errors import Exit, say
from noetl_cli.inputs import files
from noetl_cli.inputs.payload import payload_of, put

if TYPE_CHECKING:
    from noetl_core.dsl.model import Playbook


@app.command()
def dev(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    payload: Annotated[str | None, typer.Option(help="JSON, or @file")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="a.b=value; repeatable", metavar="A.B=VALUE")] = None,
    store: Store = None,
    console: Annotated[bool, typer.Option("--console/--no-console", help="Serve the console; it follows the execution")] = True,
    port: Annotated[int | None, typer.Option(help="Port of the console (default 4680, or a free one)", min=1, max=65535)] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the graph in the browser")] = False,
) -> None:
    """Watch a playbook: after each change of a file in its folder validate it, run its tests, and run it. Earlier steps keep
    their results: only the first changed step and the steps after it run again. The console shows the graph of the execution
    live. Ctrl-C ends."""
    file = file / "playbook.yaml" if file.is_dir() else file
    files.read(file)
    payload_of(payload)
    for entry in set_ or ():
        put({}, entry)
    graph = Graph(store, port, opens=open_) if console and store != IN_MEMORY else None
    cycle = Cycle(file, payload, set_, store, graph)
    seen: dict[Path, int] = {}
    try:
        while True:
            now = cycle.times()
            if now != seen:
                seen = now
                cycle.turn()
                say(output.styled("waiting for changes; Ctrl-C ends", "dim"))
            time.sleep(WATCH_S)
    finally:
        if graph is not None:
            graph.close()


class Graph:
    """The console, whose pages follow the newest execution. Raises `Exit(2)` if its port is in use."""

    def __init__(self, store: str | None, port: int | None = None, *, opens: bool = False) -> None:
        from noetl_console.answering import OnRequest  # 40 ms, with the server: the other commands need no console
        from noetl_console.following import Following

        self._opens, self._following = opens, Following()
        self.serving = begin(OnRequest("local", lambda: api_of("local", store)), port, self._following)

    def show(self, execution_id: str) -> None:
        """Show an execution that begins or goes on, and print the address of its graph if it is another one than before."""
        if self._following.begin(execution_id):
            address = self.serving.graph_address(execution_id)
            say(f"graph: {address}")
            if self._opens:
                show(address)
                self._opens = False

    def rest(self) -> None:
        """Note that nothing runs."""
        self._following.end()

    def close(self) -> None:
        """Stop serving."""
        end(self.serving)


class Cycle:
    """The work after each change. `execution_id` is the execution that continues with the changed playbook."""

    def __init__(
        self,
        file: Path,
        payload: str | None = None,
        set_: list[str] | None = None,
        store: str | None = None,
        graph: Graph | None = None,
    ) -> None:
        self._file, self._store, self._graph = file, store, graph
        self._options = RunOptions(what=str(file), payload=payload, set_=set_, store=store)
        self.execution_id = ""
        self._ran: Playbook | None = None
        """The playbook with which it ran."""

    def times(self) -> dict[Path, int]:
        """Return when each file in the folder has changed last."""
        found = (file for file in self._file.parent.iterdir() if file.suffix in WATCHED and file.is_file())
        return {file: file.stat().st_mtime_ns for file in found}

    def turn(self) -> None:
        """Validate, test and run the playbook. Errors are printed, and end the round."""
        from noetl_core.dsl.reading.diagnostics import InvalidPlaybook, to_text  # 190 ms, as all that runs a playbook

        try:
            playbook = files.checked(files.with_libraries(files.playbook(self._file), self._file), self._file, quiet=False)
            self._test()
            self._run(playbook)
        except InvalidPlaybook as wrong:
            print(to_text(wrong.diagnostics))
        except Exit as ended:
            say(ended.message)
        finally:
            if self._graph is not None:
                self._graph.rest()

    def _test(self) -> None:
        from noetl_core.testing.files import SUFFIX  # 350 ms, as above

        tests = self._file.with_name(self._file.stem + SUFFIX)
        if tests.exists() and run_tests(TestOptions(files=[tests])):
            raise Exit(1, "the playbook is not run before its tests pass")

    def _run(self, playbook: Playbook) -> None:
        if self._ran is None or not self.execution_id or not is_continued(self._ran, playbook):
            self._ran = playbook
            start_and_follow(self._options, self._begun)
            return
        before, self._ran = self._ran, playbook
        with closing(backend("local", self._store)) as where:
            found = where.api.execution(self.execution_id)
        from_step = first_changed(before, playbook, found["steps"])
        if from_step is None and found["status"] == "completed":
            say("no step that ran has changed")
            return
        say(f"again from {from_step or 'where it failed'}")
        self._begun(self.execution_id)
        redrive(self.execution_id, begin=from_step, playbook=self._file, on="local", store=self._store)

    def _begun(self, execution_id: str) -> None:
        self.execution_id = execution_id
        if self._graph is not None:
            self._graph.show(execution_id)


def is_continued(before: Playbook, after: Playbook) -> bool:
    """Return whether an execution of one playbook may go on with the other: only steps differ."""
    return (before.path, before.workload, before.inputs, before.executor, before.keychain, before.workbook) == (
        after.path,
        after.workload,
        after.inputs,
        after.executor,
        after.keychain,
        after.workbook,
    )


def first_changed(before: Playbook, after: Playbook, ran: Iterable[str]) -> str | None:
    """Return the first of the steps that ran, in their order, whose definition differs; None if there is none."""
    return next((name for name in ran if name in after.by_name and before.by_name.get(name) != after.by_name[name]), None)
