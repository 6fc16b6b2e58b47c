"""`noetl_core.run`: runs a playbook from a program, in its own process.

It uses the local runner, so tasks, retries, loops and history are the same as everywhere. Without `store` everything is in
memory: a program that runs a playbook leaves no files and does not share executions with other processes.
"""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from noetl_core.adapters.local.database import MEMORY
from noetl_core.control.admit import StartRequest, register
from noetl_core.dsl.dump import dump
from noetl_core.dsl.kinds import ENGINE_KINDS, KINDS
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.engine.outcome import Outcome
from noetl_core.log.stored_values import Values
from noetl_core.playbooks.called_files import beside, called, with_libraries, with_paths
from noetl_core.playbooks.script_files import with_scripts
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import BadInput, Tool, ToolCall
from noetl_core.tools.registry import ToolRegistry
from noetl_core.values import strict_json
from noetl_core.views.executions.executions import status_of, summary
from noetl_core.views.reading.cursor import history
from noetl_core.views.reading.envelopes import Expander

FRAMES = 5
"""Maximum number of frames in the traceback of a failed function."""


class Execution:
    """An execution that has ended, or that waits until someone acts (`status` paused, stuck).

    It can be read as long as this object exists, even without a store. Attributes have their values at the return of `run`.
    """

    id: str
    """Its number, as text."""
    status: str
    """`completed`, `failed`, `cancelled`, `paused` or `stuck`."""
    error: Mapping[str, Any] | None
    """The error, if it failed, was cancelled or is stuck: `{kind, message, step?, task?, code?, retryable?, details?}`."""

    def __init__(self, wiring: LocalWiring, execution_id: str) -> None:
        self._wiring = wiring
        self._state = wiring.control.load(execution_id)
        self._values = Values(wiring.store, wiring.results, execution_id, limit=None)
        self.id = execution_id
        self.status = status_of(self._state)
        self.error = summary(wiring.control, execution_id)["error"]
        if self.status == "stuck":
            self.error = {"kind": "stuck", "message": self._state.stuck}

    @cached_property
    def result(self) -> Any:
        """Return the result of the playbook, with references replaced by their values; None unless it completed."""
        return self._values.whole(self._values.at(self._state.result)) if self.status == "completed" else None

    @cached_property
    def ctx(self) -> dict[str, Any]:
        """Return the execution's `ctx` at its end, with references replaced by their values."""
        return cast(dict[str, Any], self._values.whole(self._state.ctx))

    def events(self) -> list[dict[str, Any]]:
        """Return the complete history as event envelopes, in causal order. Large values in them are references."""
        expand = Expander(self.id)
        return [dict(envelope) for commit in history(self._wiring.store, self.id) for envelope in expand(commit)]

    def _repr_html_(self) -> str:
        """Return what notebooks show: the graph, the steps, the causes of a failure, and the result."""
        from noetl_core.runtime.notebook import html  # 150 ms, with the next: needed only by notebooks
        from noetl_core.service.operations.base import Operations

        return html(Operations(lambda: self._wiring.control, lambda: b""), self.id)

    def __repr__(self) -> str:
        return f"<Execution {self.id} {self.status}>"


def run(
    playbook: str | Path | Playbook,
    payload: Mapping[str, Any] | None = None,
    tools: Mapping[str, Tool | Callable[..., Any]] | None = None,
    *,
    store: str | Path | None = None,
    timeout_s: float | None = None,
    strict: bool = False,
) -> Execution:
    """Run a playbook in this process to its end. A failure is the status of the execution, not an exception.

    `playbook` is a path (a `Path`, or a text of one line: a file, or a folder with a `playbook.yaml`), the text of a
    playbook, or its model. Playbooks that it calls are found beside its file. `payload` is JSON data, and is merged over the
    defaults of the workload. `tools` are kinds for this run only, with precedence over all others: a function, which is
    called with a task's inputs by name and returns its result (if it raises, the task fails with kind `python`), or a `Tool`.
    They are called from several threads at the same time. A playbook with kinds that the language does not know sets
    `executor.spec.extensions: true`. `store` is a database file for the execution, as in `noetl run --store`: `noetl show`
    and `noetl resume` find it there. `timeout_s` is how long to wait for the end. `strict`: undefined values
    in templates, and errors that no rule matches, are failures.

    Raises `InvalidPlaybook`, `BadWorkload` (inputs that the playbook does not accept), `ValueError` (a payload that is no
    JSON data, a name in `tools` that no task could use), `TimeoutError`, `OSError` (a file that cannot be read).
    """
    source, file, model = read_playbook(playbook)
    data = _data(payload or {}, "payload")
    _check_replaced(tools or {}, source)
    registry = ToolRegistry({kind: _tool(kind, tool) for kind, tool in (tools or {}).items()})
    wiring = LocalWiring(MEMORY if store is None else store, tools=registry)
    try:
        if file is not None and model is not None:
            register_called(wiring, model, file)
        started = wiring.start(StartRequest(playbook=source, payload=data, strict=strict))
        if not wiring.run(started.execution_id, timeout_s=timeout_s):
            raise TimeoutError(f"execution {started.execution_id} did not end within {timeout_s:g} s")
        wiring.stop()
        return Execution(wiring, started.execution_id)
    except BaseException:  # including Ctrl-C: release the runs, so that their successor need not wait
        wiring.runner.leave("the program stopped waiting for it")
        wiring.close()
        raise


def read_playbook(playbook: str | Path | Playbook) -> tuple[str, Path | None, Playbook | None]:
    """Return the text, and the file and the model if it was read from a file."""
    if isinstance(playbook, Playbook):
        return dump(playbook), None, None
    if isinstance(playbook, str) and ("\n" in playbook or playbook.lstrip().startswith("{")):
        return playbook, None, None
    file = Path(playbook)
    file = file / "playbook.yaml" if file.is_dir() else file
    text = with_libraries(text_of(file), file)
    return text, file, parse_playbook(text, str(file), lenient=True)


def text_of(file: Path) -> str:
    """Return the text of a playbook, complete without the files in its folder."""
    return with_scripts(with_paths(file.read_text("utf-8"), file), file.parent)


def register_called(wiring: LocalWiring, playbook: Playbook, file: Path) -> None:
    """Register the playbooks that the playbook calls directly and indirectly, from files in its folder."""
    known, queue = {playbook.path}, list(called(playbook))
    while queue:
        path = queue.pop()
        found = beside(path, file) if path not in known else None
        known.add(path)
        if found is not None:
            queue += called(register(wiring.control, text_of(found), str(found))[0])


def _check_replaced(tools: Iterable[str], source: str) -> None:
    """Raise `ValueError` for a kind that the engine runs itself, or that neither the language nor the playbook has."""
    unknown = sorted(set(tools) - KINDS.keys())
    if engine := sorted(set(tools) & ENGINE_KINDS):
        raise ValueError(f"tools: the engine itself runs tasks of kind {engine[0]!r}; another kind can be replaced")
    if unknown:
        playbook = parse_playbook(source, lenient=True)
        used = {task.kind for step in playbook.steps for task in (*step.tasks, *step.compensate)}
        used |= {task.kind for task in playbook.workbook.values()}
        wrong = [] if any(called(playbook)) else [kind for kind in unknown if kind not in used]
        if wrong:
            hint = suggest(wrong[0], KINDS.keys() | used)
            raise ValueError(f"tools: no task has the kind {wrong[0]!r}" + (f" ({hint})" if hint else ""))


def _data(value: Any, what: str) -> Any:
    """Return `value` as JSON data of its own. Raises `ValueError`."""
    try:
        strict_json.check(value)
    except ValueError as error:
        raise ValueError(f"{what} is not JSON data: {error}") from None
    return json.loads(json.dumps(value))


def _tool(kind: str, tool: Tool | Callable[..., Any]) -> Tool:
    if hasattr(tool, "run") and hasattr(tool, "inline"):
        return cast(Tool, tool)
    if callable(tool):
        return _FunctionTool(kind, tool)
    raise TypeError(f"kind {kind!r}: {tool!r} is neither a function nor a tool (`kind`, `inline`, `run(call)`)")


class _FunctionTool:
    """A tool kind implemented by a function, which gets the inputs by name and returns the result."""

    inline = False

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self.kind = kind
        self._function = function
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):  # a built-in function without a signature
            self._signature = None

    def run(self, call: ToolCall) -> Outcome:
        if self._signature is not None:
            try:
                self._signature.bind(**call.inputs)
            except TypeError as error:
                raise BadInput(f"{error} (the function takes {self._signature})") from None
        try:
            return Outcome.ok(_data(self._function(**call.inputs), "the result of the function"))
        except Exception as error:  # an exception of the function is a failure of its task
            frames = traceback.extract_tb(error.__traceback__)[1:]
            traceback_text = "".join(traceback.format_list(frames[-FRAMES:])) + f"{type(error).__name__}: {error}"
            py = {"exception_type": type(error).__name__, "message": str(error), "traceback": traceback_text}
            return Outcome.failed("python", f"{self.kind}: {error}", retryable=False, code=type(error).__name__, py=py)
