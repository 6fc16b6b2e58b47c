"""Pieces that do not map are reported with place and remedy, and fail when they run; nothing is dropped."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from noetl_core.testing import run
from noetl_import import UnusableDefinition, import_asl

TASK = "arn:aws:states:::"
PASS = {"Type": "Pass", "End": True}


def machine(state: dict[str, Any], language: str = "JSONPath") -> str:
    end = {} if state["Type"] in ("Choice", "Fail", "Succeed") else {"End": True}
    return json.dumps({"QueryLanguage": language, "StartAt": "A", "States": {"A": {**state, **end}, "B": PASS}})


def task(resource: str, **parameters: Any) -> dict[str, Any]:
    return {"Type": "Task", "Resource": f"{TASK}{resource}", "Parameters": parameters}


def value(expression: str) -> dict[str, Any]:
    return {"Type": "Pass", "Parameters": {"v.$": expression}}


def jsonata(expression: str) -> dict[str, Any]:
    return {"Type": "Pass", "Output": f"{{% {expression} %}}"}


UNSUPPORTED = [
    ({"Type": "Task", "Resource": "arn:aws:states:us-east-1:123456789012:activity:a"}, "/Resource", "an activity"),
    (task("glue:startJobRun.sync", JobName="x"), "/Resource", "glue:startJobRun.sync"),
    (task("aws-sdk:ec2:describeInstances"), "/Resource", "aws-sdk:ec2:describeInstances"),
    (task("sqs:sendMessage", QueueUrl="q"), "/Parameters", "MessageBody is missing"),
    (task("events:putEvents", Entries=[{"Source": "a"}, {"Source": "b"}]), "/Parameters/Entries", "several sources"),
    (task("states:startExecution", **{"StateMachineArn.$": "$.arn"}), "/Parameters", "computed"),
    ({"Type": "Task", "Resource": f"{TASK}sqs:sendMessage"}, "/Parameters", "not written out"),
    (value("$..x"), "", "$..x"),
    (value("$.x[?(@.a =~ /b/)]"), "", "filter"),
    (value("$.x[*].a[*].b"), "", "after [*]"),
    (value("$.x.avg()"), "", "avg()"),
    (value("$$.Execution.RoleArn"), "", "Execution.RoleArn"),
    (value("$$.Task.Token"), "", "Task.Token"),
    (value("$unknown"), "", "$unknown"),
    (value("States.Unknown(1)"), "", "States.Unknown"),
    (value("States.JsonMerge($.a, $.b, true)"), "", "deep"),
    (value("States.StringSplit($.a, 'ab')"), "", "several characters"),
    (value("States.MathRandom(1, 9, 4)"), "", "seed"),
    (value("States.MathAdd(1)"), "", "1 arguments"),
    (value("States.Format('{} {}', 1)"), "", "more or fewer values"),
    ({"Type": "Pass", "ResultPath": "$.a[0]"}, "", "writes into a list"),
    ({"Type": "Choice", "Choices": [{"Variable": "$.a", "Odd": 1, "Next": "B"}]}, "", "Odd is not a comparison"),
    ({"Type": "Wait"}, "", "no time"),
    ({"Type": "Map", "ItemProcessor": {"StartAt": "P", "States": {"P": PASS}}}, "/ItemsPath", "an object, not a list"),
    (
        {"Type": "Map", "ItemReader": {"Resource": f"{TASK}s3:getObject", "ReaderConfig": {"InputType": "PARQUET"}},
         "ItemProcessor": {"StartAt": "P", "States": {"P": PASS}}}, "/ItemReader", "reader",
    ),
]  # fmt: skip
JSONATA = [
    "$map([1], function($v) { $v })",
    "$lookup($states.input, 'a')",
    "($x := 1; $x)",
    "name",
    "$states.input.**",
    "$sum(1, 2, 3)",
]


@pytest.mark.parametrize(("state", "field", "message"), UNSUPPORTED, ids=[message for *_, message in UNSUPPORTED])
def test_a_piece_that_does_not_map_is_reported_and_fails(state: dict[str, Any], field: str, message: str) -> None:
    imported = import_asl(machine(state), "a")
    (finding,) = [each for each in imported.findings if each.level == "unsupported"]
    assert (finding.state, finding.pointer) == ("A", f"/States/A{field}")
    assert message in finding.message
    assert finding.remedy
    text = imported.playbooks["imported/a"]
    played = run(text, {"x": [1]})
    assert (played.status, played.error and played.error["kind"]) == ("failed", "unsupported")
    assert finding.message in str(played.error)
    assert f"# unsupported: {finding.message} ({finding.remedy})" in text
    played.close()


def test_jsonata_that_does_not_map_is_reported() -> None:
    for expression in JSONATA:
        (finding,) = import_asl(machine(jsonata(expression), "JSONata"), "a").findings
        assert finding.level == "unsupported", expression


ATTENTION = [
    (task("sns:publish", TopicArn="t", Message="m", MessageStructure="json"), "/Parameters/MessageStructure", "left out"),
    ({**task("lambda:invoke", FunctionName="f"), "HeartbeatSeconds": 5}, "/HeartbeatSeconds", "no effect"),
    ({**task("lambda:invoke", FunctionName="f"), "Credentials": {"RoleArn": "r"}}, "/Credentials", "another account"),
    (task("lambda:invoke", FunctionName="${Fn}"), "", "${Fn} has no value"),
    (task("aws-sdk:comprehend:detectSentiment", Text="x"), "/Resource", "signed request"),
    ({**task("lambda:invoke", FunctionName="f"), "Retry": [{"ErrorEquals": ["A"]}, {"ErrorEquals": ["B"]}]}, "/Retry", "together"),
    (
        {"Type": "Map", "ItemsPath": "$.x", "ToleratedFailureCount": 1, "ItemProcessor": {"StartAt": "P", "States": {"P": PASS}}},
        "/ResultPath", "result null",
    ),
]  # fmt: skip


def test_a_difference_is_reported_with_its_place() -> None:
    for state, field, message in ATTENTION:
        imported = import_asl(machine(state), "a")
        assert [(each.level, each.pointer, message in each.message) for each in imported.findings] == [
            ("attention", f"/States/A{field}", True)
        ]


def test_a_catcher_does_not_hide_an_unsupported_state() -> None:
    branch = {"StartAt": "X", "States": {"X": {**value("$..x"), "End": True}}}
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "B"}]
    items = {"ItemsPath": "$.x", "ItemProcessor": branch}
    for state in ({"Type": "Parallel", "Branches": [branch]}, {"Type": "Map", **items}):
        imported = import_asl(machine({**state, "Catch": catch}), "a")
        texts = list(imported.playbooks.values())
        with tempfile.TemporaryDirectory() as folder:
            for number, text in enumerate(texts):
                (Path(folder) / f"{number}.yaml").write_text(text)
            played = run(Path(folder) / "0.yaml", {"x": [1]})
        assert (played.status, played.error and played.error["kind"]) == ("failed", "unsupported")
        played.close()


UNUSABLE = [
    ("{", "line 1"),
    ("[1]", "StartAt and States"),
    ("{}", "no States"),
    ('{"StartAt": "X", "States": {"A": {"Type": "Succeed"}}}', "'X'"),
    ('{"StartAt": "A", "States": {"A": {"Type": "Loop"}}}', "/States/A has no Type"),
    ('{"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "B"}}}', "'B'"),
    ('{"StartAt": "A", "States": {"A": {"Type": "Pass"}}}', "neither Next nor End"),
    ('{"StartAt": "A", "States": {"A": {"Type": "Task", "End": true}}}', "no Resource"),
    ('{"StartAt": "A", "States": {"A": {"Type": "Map", "End": true}}}', "/States/A/Iterator has no States"),
    ("a: [", "line 1"),
]


def test_text_that_is_no_state_machine_is_refused() -> None:
    for text, message in UNUSABLE:
        with pytest.raises(UnusableDefinition) as refused:
            import_asl(text, "a")
        assert message in str(refused.value)
