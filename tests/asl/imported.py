"""Runs cases as imported playbooks, in virtual time. Answers in the form of Step Functions become those of tasks."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from noetl_core.testing.acts import Act, act_of
from noetl_core.testing.play import Played, Scene, play
from noetl_import import Imported, import_asl
from noetl_import.errors import SERVICES
from tests.asl.cases import Case, Outcome, contains, task_states

KINDS: Final = {"States.Timeout": "timeout", "Lambda.SdkClientException": "connection", "States.Permissions": "auth"}
STUB: Final = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: stub, path: {path} }}
workflow: [{{ step: run, tool: {{ kind: lambda, function: stub, payload: "{{{{ workload }}}}" }} }}]
executor: {{ spec: {{ result: "{{{{ steps.run.result.payload }}}}" }} }}
"""
MESSAGE: Final = "message_ids"
ROOT: Final = "imported/machine"


def run(case: Case) -> tuple[Imported, Outcome]:
    """Return the import of a case's definition, and how the case ends."""
    imported = _imported(json.dumps(case.definition))
    with tempfile.TemporaryDirectory() as folder:
        return imported, _played(case, imported, Path(folder))


@cache
def _imported(text: str) -> Imported:
    return import_asl(text, "machine")


def _played(case: Case, imported: Imported, folder: Path) -> Outcome:
    documents = {path: yaml.load(text, yaml.CSafeLoader) for path, text in imported.playbooks.items()}
    texts = dict(imported.playbooks)
    tools, acts, places = dict[str, Any](), list[Act](), dict[str, str]()
    for pointer, name, state in task_states(case.definition):
        path, place = imported.places[pointer]
        task, named = _task(documents[path], place), _test_name(path, place)
        answers = case.answers.get(name, [{"return": {}}])
        if ".waitForTaskToken" in state["Resource"]:
            tools[named] = {"ok": _sent(task["kind"]), "optional": True}
            callback = f"{place.partition('.')[0]}.{place.partition('.')[2].removesuffix('_send')}"
            acts += [
                act_of({"callback": callback, **_answered(each)})
                for each in answers
                if name in case.answers and each.get("error") != "States.Timeout"
            ]
            places[name] = named
        elif task["kind"] == "playbook":
            texts[task["path"]] = STUB.format(path=task["path"])
            tools[_test_name(task["path"], "run")] = _Answers("lambda", state, answers, stub=True)
            places[name] = _test_name(task["path"], "run")
        elif task["kind"] != "noop":
            tools[named] = _Answers(task["kind"], state, answers)
            places[name] = named
    for objects in case.objects.values():
        tools |= {
            _test_name(path, step["step"]): {"ok": {"data": _rows(step["tool"], objects), "objects": []}}
            for path, step in _readers(documents)
        }
    files = []
    for number, text in enumerate(texts.values()):
        files.append(folder / f"{number}.yaml")
        files[-1].write_text(text)
    payload = case.input if isinstance(case.input, Mapping) else {"input": case.input}
    played = play(Scene(files[0], payload=payload, tools=tools, acts=acts, others=files[1:]))
    try:
        return _outcome(played, places)
    finally:
        played.close()


class _Answers:
    """Answers the calls of a task as scripted."""

    def __init__(self, kind: str, state: Mapping[str, Any], answers: list[Mapping[str, Any]], *, stub: bool = False) -> None:
        self.kind, self.state, self.answers, self.stub, self.count = kind, state, answers, stub, 0

    def __call__(self, **inputs: Any) -> Any:
        fitting = [each for each in self.answers if "input" in each and contains(inputs, each["input"])]
        others = [each for each in self.answers if "input" not in each]
        answer = fitting[0] if fitting else others[min(self.count, len(others) - 1)]
        self.count += 1
        return _scripted(self.kind, self.state, answer, stub=self.stub)


def _outcome(played: Played, places: Mapping[str, str]) -> Outcome:
    status = {"completed": "SUCCEEDED", "failed": "FAILED"}.get(played.status, played.status)
    error = played.error or {}
    calls = {name: [dict(call.inputs) for call in played.calls if _same(place, call.task)] for name, place in places.items()}
    name = (
        "States.NoChoiceMatched"
        if "no arc of step" in error.get("message", "")
        else error.get("code") or ("States.Timeout" if error.get("kind") == "timeout" else "States.TaskFailed")
    )
    notes = "; ".join(
        [
            *(f"{each.task}: {each.why}" for each in played.unanswered),
            *(["" if not error else f"{error.get('kind')}: {error.get('message')}"]),
        ]
    )
    return Outcome(status, played.result, str(name) if error else "", calls, notes)


def _test_name(path: str, place: str) -> str:
    """Return the name of a task in tests."""
    return place if path == ROOT else f"{path}#{place if '.' in place else f'{place}.{place}_task'}"


def _same(place: str, task: str) -> bool:
    """Return True if a task is the one of a place, which names it or its step."""
    own, _, called = place.rpartition("#")[2], *task.rpartition("#")[1:]
    return called == own or ("." not in own and called.partition(".")[0] == own)


def _task(document: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    step, _, task = place.partition(".")
    tool = next(each for each in document["workflow"] if each["step"] == step)["tool"]
    found: Mapping[str, Any] = next(each for each in tool if each["name"] == task) if isinstance(tool, list) else tool
    return found


def _readers(documents: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(path, step) for path, each in documents.items() for step in each["workflow"] if step["step"].endswith("_read")]


def _rows(tool: Mapping[str, Any], objects: Mapping[str, str]) -> Any:
    text = objects[tool["key"]]
    if tool["format"] == "csv":
        head, *rows = (line.split(",") for line in text.splitlines())
        return [dict(zip(head, row, strict=True)) for row in rows]
    return json.loads(text) if tool["format"] == "json" else [json.loads(line) for line in text.splitlines()]


def _sent(kind: str) -> Any:
    return {
        "lambda": {"payload": None, "status": 200},
        "eventbridge": {"event_ids": ["1"], "sent": 1},
        "http": {"data": None},
    }.get(kind, {MESSAGE: ["1"], "sent": 1})


def _answered(answer: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        return {"error": {"kind": "unknown", "code": answer["error"], "message": answer.get("cause", "")}}
    return {"data": answer["return"]}


def _scripted(kind: str, state: Mapping[str, Any], answer: Mapping[str, Any], *, stub: bool = False) -> dict[str, Any]:
    """Return the outcome of a task for an answer of Step Functions."""
    if "error" in answer:
        service, _, code = answer["error"].partition(".")
        code = code if code and service.lower() in SERVICES else answer["error"]
        error: dict[str, Any] = {"kind": KINDS.get(answer["error"], "server_error" if kind in ("lambda", "http") else "unknown")}
        error |= {"code": code, "message": answer.get("cause", "")} if kind != "http" else {}
        if ":aws-sdk:" in state["Resource"] and kind == "http":
            return {"error": {"code": 400, "details": {"body": json.dumps({"__type": f"x#{code}"})}}, "http": {"status": 400}}
        if kind == "lambda":
            error["details"] = {"payload": {"errorMessage": answer.get("cause", ""), "errorType": answer["error"]}}
        return {"error": error}
    return {"ok": _result(kind, state, answer["return"], stub)}


def _result(kind: str, state: Mapping[str, Any], value: Any, stub: bool) -> Any:
    match kind:
        case "lambda":
            direct = stub or not state["Resource"].endswith(":lambda:invoke")
            if stub:
                value = value.get("Output", value)
            return {"payload": value if direct else value.get("Payload"), "status": 200, "version": "$LATEST"}
        case "dynamodb":
            item = plain({"M": value["Item"]}) if "Item" in value else None
            rows = [plain({"M": each}) for each in value.get("Items", ())]
            many = {"items": rows, "count": len(rows)} if "Items" in value else {}
            action = state["Resource"].rpartition(":")[2]
            return many or {
                "getItem": {"item": item, "found": item is not None},
                "deleteItem": {"deleted": True, "old": item},
            }.get(action, {"item": item})
        case "eventbridge":
            return {"event_ids": [each.get("EventId", "") for each in value.get("Entries", [{}])], "sent": 1}
        case "http" if ":aws-sdk:" in state["Resource"]:
            return {"data": value}
        case "http":
            return {"data": value.get("ResponseBody"), "status": value.get("StatusCode", 200)}
        case "s3":
            return {"data": value.get("Body")}
        case "email":
            return {"message_id": value.get("MessageId")}
    return {MESSAGE: [value.get("MessageId", "")], "sent": 1}


def plain(value: Any) -> Any:
    """Return a typed value of DynamoDB as plain data."""
    ((type_, inner),) = value.items()
    match type_:
        case "M":
            return {key: plain(each) for key, each in inner.items()}
        case "L":
            return [plain(each) for each in inner]
        case "N":
            return json.loads(inner)
        case "NULL":
            return None
    return inner
