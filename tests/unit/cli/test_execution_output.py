"""Messages at the end of a run: ten seeded failures, each with its output. The cause and its `file:line` are among the first six
lines.

`python -m tests.unit.cli.test_execution_output` writes the texts again; review the differences.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from noetl_cli.display.execution_output import print_execution
from noetl_core.engine.outcome import Outcome
from noetl_core.service.operations.base import Operations
from noetl_core.tools.base import ToolCall
from tests.commands import PATIENCE_S, Command, run
from tests.servers import Handler, serving, url_of
from tests.sim.ports import Crash, Faults
from tests.sim.world import World

FOLDER = Path(__file__).parent / "execution_output"
CAUSES = {
    "python": "python.yaml:18:",
    "arc_error": "arc_error.yaml:6:",
    "no_arc": "no_arc.yaml:9:",
    "best_effort": "best_effort.yaml:8:",
    "callback": "callback.yaml:6 start: waits for an answer (Approve the order)",
    "retry": "retry.yaml:8 fetch: attempt 1",
    "join": "join.yaml:11:",
    "admission": "admission.yaml:9:",
    "lost": "lost.yaml:5:",
    "http_503": "http_503.yaml:8:",
}


class _UnwellServer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Unwell)
        self.asked: set[str] = set()


class _Unwell(Handler):
    """Fails always at /never, and once at /once."""

    def do_GET(self) -> None:
        assert isinstance(self.server, _UnwellServer)
        first = self.path not in self.server.asked
        self.server.asked.add(self.path)
        if first or self.path == "/never":
            self.say(503, b'{"error": "too busy"}', Content_Type="application/json")
        else:
            self.say(200, b'"fine"', Content_Type="application/json")


@contextmanager
def _unwell() -> Iterator[str]:
    with serving(_UnwellServer()) as server:
        yield url_of(server)


def came_out(name: str, folder: Path) -> str:
    """Return the output of `noetl run`: standard error, then standard output."""
    shutil.copy(FOLDER / f"{name}.yaml", folder)
    if name == "lost":
        return _lost(folder)
    if name == "callback":
        return _answered(folder)
    with _unwell() as url:
        options = ["--set", f"url={url}"] if name in ("retry", "http_503") else []
        done = run("run", f"{name}.yaml", *options, cwd=folder)
    return _even(f"{done.stderr}{done.stdout}exit code {done.returncode}\n")


def _answered(folder: Path) -> str:
    with Command("run", "callback.yaml", cwd=folder) as command:
        until = time.monotonic() + PATIENCE_S
        while (found := re.search(r"noetl callback (\S+)", command.stderr)) is None:
            assert time.monotonic() < until, command.stderr
            time.sleep(0.05)
        assert run("callback", found[1], "--data", '{"ok": true}', cwd=folder).returncode == 0
        code = command.wait()
        return _even(f"{command.stderr}{command.stdout}exit code {code}\n")


class _Of:
    """A backend, as far as it is needed to tell of an execution."""

    name = "local"

    def __init__(self, world: World) -> None:
        self.api = Operations(lambda: world.controls[0], lambda: b"")


def _lost(folder: Path) -> str:
    """A worker dies whenever it has come to the task `kills`."""

    def dies(call: ToolCall) -> Outcome:
        if call.task == "kills":
            raise Crash("the worker is gone")
        return Outcome.ok(1)

    world = World(Faults(), tool=dies)
    source = (folder / "lost.yaml").read_text()
    execution_id = world.start(source).execution_id
    world.run(execution_id)
    where: Any = _Of(world)
    with redirect_stdout(io.StringIO()) as out:
        print_execution(where, where.api.execution(execution_id), folder / "lost.yaml")
    return _even(out.getvalue().replace(f"{folder}/", ""))


def _even(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, word in (
        (r"\b\d{14,19}\.r[0-9a-f]+\.\S+", "TOKEN"),
        (r"\b\d{14,19}\b", "ID"),
        (r"in \d+\.\d\d s", "in N s"),
        (r"\d\d:\d\d:\d\dZ", "HH:MM:SSZ"),
        (r"\[ *\d+\.\d s\] .*\n", ""),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"state is kept in .*\n", ""),
        (r"<listcomp>", "<module>"),
    ):
        text = re.sub(pattern, word, text)
    return re.sub(r"(  \S+ in <module>: .*\n)\1", r"\1", text)  # Python 3.12 has no frame of a comprehension


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(CAUSES))
def test_the_cause_comes_first(name: str, tmp_path: Path) -> None:
    text = came_out(name, tmp_path)
    assert text == (FOLDER / f"{name}.txt").read_text()
    first = "\n".join(text.splitlines()[:6])
    assert CAUSES[name] in first, first


if __name__ == "__main__":
    for each in sorted(CAUSES):
        with tempfile.TemporaryDirectory() as temporary:
            (FOLDER / f"{each}.txt").write_text(came_out(each, Path(temporary)))
