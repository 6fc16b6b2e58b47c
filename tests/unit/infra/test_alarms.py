"""Alarms and the dashboard: on what the sweeper would otherwise hide, and on metrics that exist."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from tests.unit.infra import test_sample_events as sample
from tests.unit.infra.translated import CHOICES, ROOT, of_type

OWN = "NoETL"
cloud = sample.cloud
TOPIC = "arn:aws:sns:us-east-1:123456789012:alarms"
DEAD_LETTERS = {"CommandDeadLetters", "ControlDeadLetters", "InboxDeadLetters"}


def alarms(**parameters: str) -> dict[str, Mapping[str, Any]]:
    return of_type("AWS::CloudWatch::Alarm", **parameters)


def watched(alarm: Mapping[str, Any]) -> tuple[str, str, str]:
    """(namespace, metric, of what) of an alarm."""
    return alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"][0]["Value"]


def watched_at_all(**parameters: str) -> set[tuple[str, str, str]]:
    return {watched(alarm) for alarm in alarms(**parameters).values()}


def emitted(name: str) -> bool:
    """Return whether the functions add this metric. Names made of a prefix and a word are searched for by their parts."""
    shared = ROOT / "layers/noetl_core/noetl_core/runtime/control_wiring.py"
    texts = "".join(p.read_text() for p in (*(ROOT / "functions").glob("*/app.py"), shared))
    if f'"{name}"' in texts:
        return True
    return name.startswith("Sweep") and f'"{name.removeprefix("Sweep").lower()}"' in texts


def test_dead_letters_raise_an_alarm_although_the_sweeper_takes_them_away() -> None:
    """Nothing lies in a queue that is drained every minute: what counts is how many were taken out of it."""
    assert (OWN, "SweepDead", "stack") in watched_at_all()
    drained = json.loads(of_type("AWS::Lambda::Function")["SweeperFunction"]["Environment"]["Variables"]["DEAD_LETTER_QUEUES"])
    lying = {w[2] for w in watched_at_all() if w[1] == "ApproximateNumberOfMessagesVisible"}
    assert {f"${{{q}.QueueName}}" for q in DEAD_LETTERS} - lying == {"${CommandDeadLetters.QueueName}"}
    assert "${CommandDeadLetters}" in drained


def test_a_sweep_that_takes_a_dead_letter_away_sends_its_count(cloud: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Under the one dimension that the alarm asks for; another would be another metric."""
    (queue, _) = json.loads(os.environ["DEAD_LETTER_QUEUES"])
    letter = {"execution_id": sample.EXECUTION, "step": "start", "run_id": "r1"}
    client("sqs").send_message(QueueUrl=queue, MessageBody=json.dumps(letter))
    sample.call("sweeper", "schedule")
    (sent,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    (metrics,) = sent["_aws"]["CloudWatchMetrics"]
    assert (sent["SweepDead"], metrics["Dimensions"]) == ([1.0], [["service"]])
    (alarm,) = [a for a in alarms().values() if watched(a)[1] == "SweepDead"]
    assert [d["Name"] for d in alarm["Dimensions"]] == ["service"]


@pytest.mark.parametrize(
    "wanted",
    [
        ("AWS/Lambda", "Invocations", "${SweeperFunction}"),
        ("AWS/Lambda", "Errors", "${SweeperFunction}"),
        ("AWS/Lambda", "Errors", "${RouterFunction}"),
        ("AWS/Lambda", "IteratorAge", "${RouterFunction}"),
        ("AWS/SQS", "ApproximateAgeOfOldestMessage", "${CommandQueue.QueueName}"),
        ("AWS/SQS", "ApproximateAgeOfOldestMessage", "${PythonQueue.QueueName}"),
        ("AWS/SQS", "ApproximateAgeOfOldestMessage", "${ControlQueue.QueueName}"),
        ("AWS/SQS", "ApproximateAgeOfOldestMessage", "${InboxQueue.QueueName}"),
        ("AWS/ApiGateway", "5XXError", "stack"),
        (OWN, "RoutingFailed", "stack"),
        (OWN, "EvaluationsRisked", "stack"),
        (OWN, "SweepBroken", "stack"),
        (OWN, "HooksOverRate", "stack"),
    ],
    ids=" ".join,
)
def test_each_condition_that_stops_executions_has_an_alarm(wanted: tuple[str, str, str]) -> None:
    assert wanted in watched_at_all(PythonPool="yes")


@pytest.mark.parametrize("pool", ["yes", "no"])
def test_every_function_that_is_throttled_raises_an_alarm(pool: str) -> None:
    throttled = {of for _, metric, of in watched_at_all(PythonPool=pool) if metric == "Throttles"}
    assert throttled == {"${" + name + "}" for name in of_type("AWS::Lambda::Function", PythonPool=pool)}


def test_missing_data_of_the_sweeper_alone_raises_an_alarm() -> None:
    (missing,) = [a for a in alarms().values() if watched(a) == ("AWS/Lambda", "Invocations", "${SweeperFunction}")]
    assert missing["TreatMissingData"] == "breaching"
    assert (missing["ComparisonOperator"], missing["Threshold"]) == ("LessThanThreshold", 1)
    assert all(a["TreatMissingData"] == "notBreaching" for a in alarms().values() if a is not missing)


def test_alarms_watch_metrics_that_functions_send_under_the_stacks_name() -> None:
    own = {w for w in watched_at_all() if w[0] == OWN}
    assert {name for _, name, _ in own if not emitted(name)} == set()
    environment = of_type("AWS::Lambda::Function")["SweeperFunction"]["Environment"]["Variables"]
    assert {of for _, _, of in own} == {environment["POWERTOOLS_SERVICE_NAME"]}
    assert environment["POWERTOOLS_METRICS_NAMESPACE"] == OWN


def test_every_alarm_and_its_recovery_notify_the_topic_if_set() -> None:
    assert all((a["AlarmActions"], a["OKActions"]) == ([TOPIC], [TOPIC]) for a in alarms(AlarmTopicArn=TOPIC).values())
    assert all("AlarmActions" not in a and "OKActions" not in a for a in alarms().values())


@pytest.mark.parametrize("parameters", CHOICES, ids=lambda p: "+".join(p) or "defaults")
def test_the_dashboard_shows_only_emitted_metrics_and_all_watched_ones(parameters: dict[str, str]) -> None:
    (board,) = of_type("AWS::CloudWatch::Dashboard", **parameters).values()
    widgets = json.loads(board["DashboardBody"])["widgets"]
    shown = {tuple(m[:2]) for w in widgets for m in w["properties"]["metrics"]}
    assert {
        name for namespace, name in shown if namespace == OWN and not name.startswith("Commands") and not emitted(name)
    } == set()
    assert {(n, m) for n, m, _ in watched_at_all(**parameters) if n == OWN} <= shown
    places = {(w["x"], w["y"]) for w in widgets}
    assert len(places) == len(widgets)
    assert len(board["DashboardBody"]) < 100_000
