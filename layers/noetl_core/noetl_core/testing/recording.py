"""Turns an execution into a test: its inputs, the answers of its tasks, and its outcome.

Answers of tasks that touch nothing outside are left out, because a test runs these tasks. Equal answers of a task are one entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from noetl_core.dsl.kinds import ENGINE_KINDS, KINDS
from noetl_core.dsl.model import Playbook, Task
from noetl_core.dsl.reading.scalars import resolve, surprise
from noetl_core.engine.outcome import RETRYABLE_KINDS
from noetl_core.engine.waits import BY_TOKEN
from noetl_core.expr import is_template
from noetl_core.testing.files import FILE
from noetl_core.testing.outcomes import HELPERS
from noetl_core.testing.registry import Verbatim
from noetl_core.tools.http.statuses import kind_of
from noetl_core.values.instants import from_text
from noetl_core.worker.secrets.keychain import label

LARGE: Final = 2_048
"""Bytes of JSON from which on a value is in a file of its own."""
WIDTH: Final = 120
_SECRET: Final = re.compile(r"keychain\.(\w+)\.(\w+)")
_HEADERS: Final = re.compile(r"(?<!http)\.headers\b|\['headers'\]")
"""Reads headers of a result, not those of an error."""
Event = Mapping[str, Any]
Place = tuple[int, tuple[int, ...], int, int]
"""The place of a call: the run of the step, the iteration, the visit and the attempt."""


@dataclass(frozen=True)
class Recorded:
    """An execution and its children, the execution itself first. `whole` returns a value with its references
    replaced, given the execution that it belongs to."""

    summary: Mapping[str, Any]
    source: str
    executions: Sequence[tuple[Playbook, Sequence[Event]]]
    whole: Callable[[str, Any], Any] = lambda _, value: value
    texts: Mapping[str, str] = field(default_factory=dict)
    """The texts of the playbooks, by their paths."""


@dataclass(frozen=True)
class Way:
    """The extent of a recording: the answers of tasks whose inputs may be files outside (`files`), or of all tasks, and the times
    that they took."""

    files: bool = False
    everything: bool = False
    times: bool = False


WAYS: Final = tuple(
    Way(files, every, times) for files, every in ((False, False), (True, False), (True, True)) for times in (False, True)
)
"""The alternatives, which are tried until one gives a test that replays."""


@dataclass
class _Answer:
    """An answer of a task: where it belongs, and the entry of the script."""

    run: int
    path: tuple[int, ...]
    visit: int
    attempt: int
    entry: dict[str, Any]

    @property
    def place(self) -> Place:
        return self.run, self.path, self.visit, self.attempt


@dataclass
class Test:
    """A recorded test: its document, and the values that are in files of their own, by name."""

    __test__ = False

    document: dict[str, Any]
    files: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The document as YAML."""
        return yaml.dump(self.document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=None)


def record(recorded: Recorded, name: str, playbook: str, way: Way, folder: str) -> Test:
    """Return the test of an execution. `playbook` is the name of its file beside the test file, `folder` that of large values."""
    root, events = recorded.executions[0]
    first = events[0]
    data = first["data"]
    test = Test({"test": name, "playbook": playbook, "now": first["timestamp"]})
    keep = _Keeper(test, folder)
    execution_id = first["execution_id"]
    for key in ("payload", "ctx"):
        if data.get(key):
            test.document[key] = keep(key, recorded.whole(execution_id, data[key]))
    if data.get("strict") and not root.executor.strict:
        test.document["strict"] = True
    if data.get("trigger"):
        test.document["trigger"] = keep("trigger", recorded.whole(execution_id, data["trigger"]))
    if secrets := _secrets(root, recorded):
        test.document["secrets"] = secrets
    tools = {name: _folded(answers, keep, name) for name, answers in _answers(recorded, way).items()}
    if tools:
        test.document["tools"] = tools
    if acts := [_act(act) for act in _acts(recorded.executions)]:
        test.document["acts"] = acts
    test.document["expect"] = _expected(recorded, keep)
    return test


class _Keeper:
    """Puts values into files that are large, or whose texts a test would read as templates."""

    def __init__(self, test: Test, folder: str) -> None:
        self._test, self._folder = test, folder

    def __call__(self, name: str, value: Any) -> Any:
        text = json.dumps(value)
        if len(text) < LARGE and not is_template(text):
            return value
        stem = re.sub(r"[^\w.-]+", "-", name)
        file = f"{self._folder}/{stem}-{len(self._test.files) + 1}.json"
        self._test.files[file] = value
        return {FILE: file}


def _expected(recorded: Recorded, keep: _Keeper) -> dict[str, Any]:
    summary, (_, events) = recorded.summary, recorded.executions[0]
    expect: dict[str, Any] = {"status": summary["status"]}
    if summary["status"] == "completed":
        expect["result"] = keep("result", recorded.whole(events[0]["execution_id"], summary["result"]))
    elif summary.get("error"):
        expect["error"] = {key: summary["error"][key] for key in ("kind", "step", "task") if summary["error"].get(key)}
    if not any(event["name"] == "ExecutionRedriven" for event in events):  # a test takes the last way at once
        expect["path"] = [event["step"] for event in events if event["name"] == "StepScheduled"]
    return expect


def _secrets(playbook: Playbook, recorded: Recorded) -> dict[str, Any]:
    """Return credentials for a test, with the fields that templates read; their values do not matter. An execution that failed
    because it had not one of them has a test without it."""
    read: dict[str, dict[str, str]] = {}
    errors = [event["data"]["error"] for _, events in recorded.executions for event in events if event["data"].get("error")]
    missing = {error["message"] for error in errors if isinstance(error, Mapping) and error.get("kind") == "not_found"}
    for name, part in _SECRET.findall(recorded.source):
        read.setdefault(name, {})[part] = f"test-{part}"
    secrets = {}
    for entry in playbook.keychain:
        if any(message.startswith(f"{label(entry)}: ") for message in missing):
            continue
        credential = entry.options.get("credential") or entry.name
        secrets[str(credential)] = read.get(entry.name) or {"token": "test-token"}
    return secrets


# --- answers of tasks ---------------------------------------------------------------------------------------------------


def _answers(recorded: Recorded, way: Way) -> dict[str, list[_Answer]]:
    """Return the answers of each task that the test must script, by the name that the test gives it."""
    found: dict[str, list[_Answer]] = {}
    repeated = _repeated(recorded.executions)
    runs = {key: [run for run in some if run not in repeated] for key, some in _runs(recorded.executions).items()}
    for playbook, events in recorded.executions:
        first = events[0]["execution_id"] == recorded.executions[0][1][0]["execution_id"]
        chunks: dict[str, str] = {}
        for event in events:
            match event["name"]:
                case "LoopChunkScheduled":
                    chunks[event["step_run_id"]] = event.get("parent_id") or event["data"].get("parent", "")
                case "TaskProcessed":
                    task = _task(playbook, event)
                    if task is None or not _is_scripted(task, way):
                        continue
                    held = chunks.get(event["step_run_id"], event["step_run_id"])
                    run = held
                    while run in repeated:
                        run = repeated[run]
                    known = runs.get((playbook.path, event["step"]), [])
                    name = f"{event['step']}.{task.name}"
                    answer = _Answer(
                        known.index(run) + 1 if run in known else 1,
                        tuple(event.get("iteration", ())),
                        event["data"]["visit"],
                        event["attempt"],
                        _entry(task, event, recorded, way),
                    )
                    if held in repeated:
                        answer.entry["optional"] = True
                    some = found.setdefault(name if first else f"{playbook.path}#{name}", [])
                    some[:] = [each for each in some if each.place != answer.place]  # a redrive gives another answer
                    some.append(answer)
    return found


def _repeated(executions: Iterable[tuple[Playbook, Sequence[Event]]]) -> dict[str, str]:
    """Return the runs that a redrive repeated, each with the run that took its place; an empty text if none did."""
    found: dict[str, str] = {}
    for _, events in executions:
        scheduled = [event for event in events if event["name"] == "StepScheduled"]
        tokens = {token: event["step_run_id"] for event in scheduled for token in event["data"].get("tokens", ())}
        for event in events:
            if event["name"] == "ExecutionRedriven":
                found |= dict.fromkeys(event["data"]["again"], "")
                for token in event["data"]["tokens"]:
                    for run, *_ in (token.get("prior") or {}).get("runs", ()):
                        found[run] = tokens.get(token["token"], "")
    return found


def exact_answers(recorded: Recorded, way: Way) -> dict[str, list[tuple[Place, dict[str, Any]]]]:
    """Return the answers of each task, each with its place. No other call is answered by them."""
    return {name: [(answer.place, answer.entry) for answer in answers] for name, answers in _answers(recorded, way).items()}


def scripted(place: Place, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of a script that answers the call at one place alone, whose texts are not templates."""
    run, path, visit, attempt = place
    selectors: dict[str, Any] = {"run": run, "visit": visit, "attempt": attempt}
    if path:
        selectors["when"] = f"{{{{ path == {list(path)} }}}}"
    values = {key: Verbatim(value) if key == "ok" else value for key, value in entry.items()}
    if "error" in entry:
        values["error"] = {key: value if key == "kind" else Verbatim(value) for key, value in entry["error"].items()}
    return {**selectors, **values}


def _runs(executions: Iterable[tuple[Playbook, Sequence[Event]]]) -> dict[tuple[str, str], list[str]]:
    """Return the runs of each step of each playbook, in the order in which they were scheduled."""
    found: dict[tuple[str, str], list[str]] = {}
    scheduled = [(e["timestamp"], p.path, e) for p, events in executions for e in events if e["name"] == "StepScheduled"]
    for _, path, event in sorted(scheduled, key=lambda each: each[0]):
        found.setdefault((path, event["step"]), []).append(event["step_run_id"])
    return found


def _task(playbook: Playbook, event: Event) -> Task | None:
    step = playbook.by_name.get(event.get("step", ""))
    tasks = () if step is None else (*step.tasks, *step.compensate)
    return next((task for task in tasks if task.name == event["task"]), None)


def _is_scripted(task: Task, way: Way) -> bool:
    if task.kind in ENGINE_KINDS:
        return False
    known = KINDS.get(task.kind)
    values = {**task.spec, **task.inputs}
    if not way.files and isinstance(values.get("sources"), Mapping):  # rows, or files: known when it runs
        values["sources"] = {name: source for name, source in values["sources"].items() if not is_template(source)}
    return way.everything or known is None or not known.inside(values)


def _entry(task: Task, event: Event, recorded: Recorded, way: Way) -> dict[str, Any]:
    """Return the entry that repeats the outcome of a task, without the fields that the kind adds."""
    outcome = event["data"]["outcome"]
    entry: dict[str, Any] = {}
    if way.times and (took := outcome.get("meta", {}).get("duration_ms", 0)) >= 1:
        entry["seconds"] = round(took / 1000, 3)
    helpers = {name: outcome[name] for name in sorted(HELPERS) if name in outcome}
    if outcome["status"] == "error":
        error = {key: value for key, value in outcome["error"].items() if value is not None}
        if error.get("retryable") == (error["kind"] in RETRYABLE_KINDS):
            del error["retryable"]
        status = helpers.get("http", {}).get("status")
        if task.kind == "http" and isinstance(status, int) and status >= 400 and kind_of(status) == error["kind"]:
            kept = {"status": status, **({"headers": helpers["http"]["headers"]} if "headers" in recorded.source else {})}
            fields = {key: error[key] for key in ("message", *(("details",) if "details" in recorded.source else ()))}
            return {"http": kept, "error": fields, **entry}
        return {"error": recorded.whole(event["execution_id"], error), **helpers, **entry}
    result = recorded.whole(event["execution_id"], outcome.get("result"))
    if task.kind == "http" and isinstance(result, Mapping):
        left_out = {"url", "elapsed_ms", *(() if _HEADERS.search(recorded.source) else ("headers",))}
        kept = {key: value for key, value in result.items() if key not in left_out}
        if kept.get("status") == 200:
            del kept["status"]
        return {"ok": kept, **entry}
    return {"ok": result, **helpers, **entry}


def _folded(answers: list[_Answer], keep: _Keeper, name: str) -> Any:
    """Return the script that gives these answers: one entry if all are equal; otherwise with the selectors that differ."""
    groups: dict[str, list[_Answer]] = {}
    for answer in answers:
        groups.setdefault(json.dumps(answer.entry, sort_keys=True), []).append(answer)
    if len(groups) == 1:
        return _kept(answers[0].entry, keep, name)
    order = [answer.run + answer.visit + answer.attempt - 3 for answer in answers]
    if not any(answer.path for answer in answers) and order == list(range(len(answers))):
        return [_kept(answer.entry, keep, name) for answer in answers]
    most = max(groups, key=lambda text: len(groups[text]))
    entries = [
        {**selectors, **_kept(group[0].entry, keep, name)}
        for text, group in groups.items()
        if text != most or len(group) == 1
        for selectors in _selectors(group, answers)
    ]
    if len(groups[most]) > 1:
        entries.append(_kept(groups[most][0].entry, keep, name))
    return entries


def _selectors(group: list[_Answer], answers: list[_Answer]) -> Iterator[dict[str, Any]]:
    """Yield the selectors of equal answers; iterations of one loop are a list."""
    vary = [key for key in ("run", "visit", "attempt") if len({getattr(answer, key) for answer in answers}) > 1]
    by_place: dict[tuple[int, ...], list[_Answer]] = {}
    for answer in group:
        by_place.setdefault(tuple(getattr(answer, key) for key in vary), []).append(answer)
    for place, same in by_place.items():
        selectors: dict[str, Any] = dict(zip(vary, place, strict=True))
        depth = {len(answer.path) for answer in same}
        if depth == {1}:
            indexes = [answer.path[0] for answer in same]
            yield {**selectors, "index": indexes[0] if len(indexes) == 1 else indexes}
        elif depth == {0}:
            yield selectors
        else:
            paths = [list(answer.path) for answer in same]
            yield {**selectors, "when": f"{{{{ path in {paths} }}}}"}


def _kept(entry: dict[str, Any], keep: _Keeper, name: str) -> dict[str, Any]:
    """Return an entry whose large result is in a file. The `data` of a response is a value of its own."""
    result = entry.get("ok")
    if isinstance(result, Mapping) and "data" in result:
        return {**entry, "ok": {**result, "data": keep(name, result["data"])}}
    return {**entry, "ok": keep(name, result)} if "ok" in entry else entry


# --- acts ---------------------------------------------------------------------------------------------------------------


def _acts(executions: Iterable[tuple[Playbook, Sequence[Event]]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the acts from outside by their time: signals and answers after the time that their task had waited."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number, (_, events) in enumerate(executions):
        tasks: dict[str, str] = {}
        waited: dict[str, str] = {}
        for event in events:
            data = event["data"]
            match event["name"]:
                case "TaskStarted" | "TaskProcessed":
                    tasks[event["task_run_id"]] = f"{event['step']}.{event['task']}"
                case "StepSuspended":
                    for wait in data["waits"]:
                        if wait.get("callback") and wait.get("task"):
                            tasks[wait["callback"]] = f"{event['step']}.{wait['task']}"
                        waited[wait.get("callback") or wait.get("signal") or ""] = event["timestamp"]
                case "SignalReceived":
                    found.append((event["timestamp"], _signal(event, tasks, waited)))
                case "ExecutionCancelled" if number == 0:
                    kept = {key: data[key] for key in ("reason", "compensate") if data.get(key)}
                    found.append((event["timestamp"], {"cancel": None, **kept}))
                case "ExecutionPaused" | "ExecutionResumed" if number == 0:
                    found.append((event["timestamp"], {"pause" if event["name"] == "ExecutionPaused" else "resume": None}))
    return sorted(found, key=lambda act: act[0])


def _signal(event: Event, tasks: Mapping[str, str], waited: Mapping[str, str]) -> dict[str, Any]:
    data = event["data"]
    name = data["name"].removeprefix(BY_TOKEN)
    act: dict[str, Any] = {"callback": tasks.get(name, name)} if data["name"].startswith(BY_TOKEN) else {"signal": name}
    act |= {key: data[key] for key in ("data", "error", "heartbeat") if data.get(key) is not None}
    if name in waited:
        seconds = (from_text(event["timestamp"]) - from_text(waited[name])).total_seconds()
        if seconds >= 1:
            act["after"] = int(seconds)
    return act


def _act(timed: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return timed[1]


class _Dumper(yaml.SafeDumper):
    """Writes text that YAML 1.2 would read as another value in quotes, and repeats values instead of naming them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    try:
        plain = isinstance(resolve(text), str) and not surprise(text)
    except ValueError:
        plain = False
    style = "|" if "\n" in text and not re.search(r"[^\S\n]\n|^\s", text) else None if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
