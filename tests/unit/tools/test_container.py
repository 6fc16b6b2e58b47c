"""`kind: container` over a mocked ECS: started once, looked at, stopped, and what its ends are as outcomes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoRegionError

from noetl_container import ContainerTool, ended
from noetl_core.adapters.aws.clients import client
from noetl_core.control.admit import StartRequest
from noetl_core.control.lifecycle import operate
from noetl_core.dsl.parse import check
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.aws import rights
from noetl_core.tools.base import Outside, ToolCall
from noetl_core.tools.invoke import invoke, invoke_planned, invoke_stop
from noetl_core.tools.registry import ToolRegistry
from noetl_core.views.executions import executions
from tests.unit.docs.demo_aws import make_ecs
from tests.unit.tools.aws_playbooks import Ran, mocked, playbook
from tests.unit.tools.conftest import kind, message

TASK = {"cluster": "jobs", "task_definition": "train", "launch_type": "FARGATE"}


@pytest.fixture
def ecs() -> Iterator[Any]:
    with mocked():
        make_ecs("jobs")
        yield client("ecs")


@pytest.fixture
def slow(ecs: Any) -> Iterator[Any]:
    """Tasks run until they are stopped."""
    from moto.moto_api import state_manager

    state_manager.set_transition("ecs::task", {"progression": "manual", "times": 10_000})
    yield ecs
    state_manager.unset_transition("ecs::task")


def call_of(**inputs: Any) -> ToolCall:
    return ToolCall("container", {**TASK, **inputs}, task_run_id="k1", execution_id="7", timeout_s=20)


def planned(**inputs: Any) -> Outcome:
    return invoke_planned(ContainerTool(), call_of(**inputs))


def looked(call: ToolCall, kept: Any, looks: int = 0) -> Outcome:
    return invoke(ContainerTool(), replace(call, outside=Outside(kept, looks)))


def begun(**inputs: Any) -> tuple[ToolCall, Outcome]:
    call = call_of(**inputs)
    return call, looked(call, planned(**inputs).result)


def started(ecs: Any) -> list[Any]:
    from moto.ecs.models import ecs_backends  # loads all of EC2, which takes seconds: not before a test needs it

    backend = ecs_backends["123456789012"]["us-east-1"]
    return [task for tasks in backend.tasks.values() for task in tasks.values()]


def test_the_kind_comes_by_its_entry_point() -> None:
    assert type(ToolRegistry().outside("container")).__name__ == "ContainerTool"


def test_a_task_of_ecs_is_started_and_its_exit_code_is_the_result(ecs: Any) -> None:
    asked: list[Any] = []
    ecs.meta.events.register("provide-client-params.ecs.RunTask", lambda params, **_: asked.append(params))
    network = {"subnets": ["subnet-1"], "security_groups": ["sg-1"], "public_ip": True}
    more = {"container": "main", "command": ["a", 1], "env": {"DAY": 3, "ON": True}, "cpu": 512, "memory": "1024"}
    ran = Ran({"kind": "container", **TASK, **more, "network": network, "poll": 1})
    assert ran.result["exit_code"] == 0
    (params,) = asked
    own = {e["name"]: e["value"] for e in params["overrides"]["containerOverrides"][0]["environment"]}
    assert own == {
        "NOETL_EXECUTION_ID": ran.execution_id,
        "NOETL_TASK_RUN_ID": params["startedBy"].rpartition("-")[0],
        "NOETL_ATTEMPT": "1",
        "DAY": "3",
        "ON": "true",
    }
    assert params["overrides"]["containerOverrides"][0]["command"] == ["a", "1"]
    assert (params["overrides"]["cpu"], params["overrides"]["memory"]) == ("512", "1024")
    assert params["networkConfiguration"]["awsvpcConfiguration"]["assignPublicIp"] == "ENABLED"
    assert params["clientToken"] == params["startedBy"]
    (task,) = started(ecs)
    assert ran.result["task"] == task.task_arn


def test_its_meta_says_where_its_output_is(ecs: Any) -> None:
    call, outcome = begun()
    while outcome.status == "outside":
        outcome = looked(call, outcome.result, 1)
    number = outcome.result["task"].rpartition("/")[2]
    assert outcome.meta["container"]["logs"] == [{"container": "main", "group": "/jobs", "stream": f"train/main/{number}"}]


def test_a_worker_that_died_after_the_start_starts_nothing_again(slow: Any) -> None:
    call, first = begun()
    again = looked(call, planned().result)
    assert again.status == "outside" and again.result["task"] == first.result["task"]
    assert len(started(slow)) == 1


def test_another_attempt_starts_another_task(slow: Any) -> None:
    begun()
    second = replace(call_of(), attempt=2)
    looked(second, invoke_planned(ContainerTool(), second).result)
    assert [task.started_by for task in started(slow)] == ["k1-1", "k1-2"]


@pytest.mark.parametrize("known", [True, False])
def test_stop_finds_the_task_by_the_stored_plan_and_may_be_repeated(slow: Any, known: bool) -> None:
    call, first = begun()
    kept = first.result if known else planned().result
    for _ in range(2):
        outcome = invoke_stop(ContainerTool(), replace(call, inputs={}, outside=Outside(kept, 1)))
        assert outcome.status == "ok"
    (task,) = started(slow)
    assert task.desired_status == "STOPPED"
    assert task.stopped_reason == "noetl: nobody waits for it any more"


def test_stopping_a_task_that_never_started_succeeds_and_stops_nothing(ecs: Any) -> None:
    for kept in (planned().result, {**planned().result, "cluster": "gone"}):
        call = replace(call_of(), inputs={}, outside=Outside(kept, 0))
        assert invoke_stop(ContainerTool(), call).result == {"stopped": []}


def test_a_cancelled_execution_stops_its_container_before_it_ends(slow: Any) -> None:
    local = LocalWiring()
    source = playbook({"kind": "container", **TASK, "poll": 1})
    execution_id = local.start(StartRequest(playbook=source)).execution_id
    while not started(slow):
        local.run(execution_id, timeout_s=0.5)
    operate.cancel(local.control, execution_id)
    assert local.run(execution_id, timeout_s=240)
    assert [task.desired_status for task in started(slow)] == ["STOPPED"]
    assert executions.summary(local.control, execution_id)["status"] == "cancelled"
    local.close()


def test_a_container_that_runs_too_long_is_stopped(slow: Any) -> None:
    error = Ran({"kind": "container", **TASK, "poll": 1, "timeout": 2}).error
    assert error["kind"] == "timeout"
    assert [task.desired_status for task in started(slow)] == ["STOPPED"]


@pytest.mark.nightly
def test_a_loop_runs_no_more_containers_than_max_in_flight(slow: Any) -> None:
    source = playbook({"kind": "container", **TASK, "poll": 1, "timeout": 120}).replace(
        "    tool:\n", "    loop: {in: [1, 2, 3], iterator: i, spec: {mode: parallel, max_in_flight: 2}}\n    tool:\n"
    )
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=source)).execution_id
    while len(started(slow)) < 2:
        local.run(execution_id, timeout_s=0.5)
    assert len(started(slow)) == 2
    operate.cancel(local.control, execution_id)
    assert local.run(execution_id, timeout_s=240)
    assert {task.desired_status for task in started(slow)} == {"STOPPED"}
    local.close()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"task_definition": "arn:aws:ecs:us-east-1:1:task-definition/train:1"}, "not an ARN"),
        ({"cluster": "a/b"}, "name of a cluster"),
        ({"command": ["a"]}, "need `container`"),
        ({"env": {"A": 1}}, "need `container`"),
        ({"container": "main", "command": "python x.py"}, "list of words"),
        ({"container": "main", "command": []}, "list of words"),
        ({"container": "main", "env": {"A-B": 1}}, "not the name of a variable"),
        ({"container": "main", "env": {"NOETL_ATTEMPT": 9}}, "begins with NOETL_"),
        ({"container": "main", "env": {"A": [1]}}, "tojson"),
        ({"container": "main", "env": {"A": "x" * 9000}}, "ECS accepts 8,192"),
        ({"cpu": "much"}, "`cpu` must be"),
        ({"memory": True}, "`memory` must be"),
        ({"network": {"subnets": []}}, "network.subnets"),
        ({"network": {"subnets": ["s"], "vpc": 1}}, "unknown key `vpc`"),
        ({"launch_type": "LAMBDA"}, "FARGATE, EC2, EXTERNAL"),
        ({"capacity_provider": "FARGATE_SPOT"}, "exclude each other"),
        ({"poll": "often"}, "`poll`"),
    ],
)
def test_wrong_inputs_fail_with_a_schema_error_before_a_task_starts(ecs: Any, inputs: dict[str, Any], says: str) -> None:
    outcome = planned(**inputs)
    assert kind(outcome) == "schema"
    assert says in message(outcome)


@pytest.mark.parametrize(
    ("task", "code"),
    [
        ({"kind": "container"}, "E111"),
        ({"kind": "container", **TASK, "comand": ["a"]}, "E110"),
        ({"kind": "container", **TASK, "command": ["a"]}, "E111"),
        ({"kind": "container", **TASK, "capacity_provider": "x"}, "E114"),
        ({"kind": "container", **TASK, "network": {"subnet": ["a"]}}, "E110"),
    ],
)
def test_validation_reports_wrong_fields_of_a_container_task(task: dict[str, Any], code: str) -> None:
    assert code in {d.code for d in check(playbook(task))[1]}


def test_a_container_task_in_a_loop_over_a_cursor_is_refused() -> None:
    loop = "    loop: {cursor: {kind: sqs, queue: orders}, iterator: row}\n    tool:\n"
    found = check(playbook({"kind": "container", **TASK}).replace("    tool:\n", loop))[1]
    assert [d.code for d in found if d.severity == "error"] == ["E114"]


def test_secrets_are_refused(ecs: Any) -> None:
    outcome = planned(container="main", env={"TOKEN": Secret("s3cret-value")})
    assert "refuses secrets" in message(outcome)
    assert "s3cret" not in json.dumps(outcome.as_dict())


def test_on_a_stack_parameters_name_clusters_and_task_definitions(ecs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rights.OWN, "{}")
    refused = planned()
    assert (kind(refused), message(refused)) == (
        "auth",
        "container: the stack's parameter ToolClusters does not name cluster `jobs` (it names none)",
    )
    monkeypatch.setenv("NOETL_TOOL_CLUSTERS", "jobs")
    assert "ToolTasks does not name task definition `train`" in message(planned())
    monkeypatch.setenv("NOETL_TOOL_TASKS", "tr*")
    assert planned().status == "outside"


def test_without_a_region_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: Any) -> None:
        raise NoRegionError

    monkeypatch.setattr("noetl_container.tool.client", nowhere)
    call, outcome = begun()
    assert kind(outcome) == "schema" and "Set AWS_DEFAULT_REGION" in message(outcome)
    stopped = invoke_stop(ContainerTool(), replace(call, outside=Outside(planned().result, 0)))
    assert kind(stopped) == "schema"


@pytest.mark.parametrize("message", ["TaskDefinition not found.", "Unable to find task definition: train"])
def test_both_error_texts_for_a_missing_task_definition_mean_not_found(
    ecs: Any, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    answers(ecs, monkeypatch, "run_task", refusal("ClientException", 400, message))
    assert kind(begun()[1]) == "not_found"


@pytest.mark.parametrize(("inputs", "found"), [({"cluster": "none"}, "not_found"), ({"task_definition": "none"}, "not_found")])
def test_a_missing_cluster_or_task_definition_is_not_found(ecs: Any, inputs: dict[str, Any], found: str) -> None:
    _, outcome = begun(**inputs)
    assert kind(outcome) == found


def answers(ecs: Any, monkeypatch: pytest.MonkeyPatch, operation: str, error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(ecs, operation, fail)


def refusal(code: str, status: int, message: str = "no") -> Exception:

    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "RunTask")


@pytest.mark.parametrize(
    ("error", "comes_to"),
    [
        (refusal("ThrottlingException", 400), "rate_limit"),
        (refusal("AccessDeniedException", 400, "not authorized to perform: ecs:RunTask"), "auth"),
        (refusal("InvalidParameterException", 400), "client_error"),
        (refusal("ServerException", 500), "outside"),
    ],
)
def test_a_run_task_error_has_its_kind_and_server_errors_are_polled(
    ecs: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, comes_to: str
) -> None:
    answers(ecs, monkeypatch, "run_task", error)
    _, outcome = begun()
    assert outcome.status == comes_to or kind(outcome) == comes_to


def test_a_denied_pass_role_names_the_stack_parameter_that_grants_it(ecs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rights.OWN, "{}")
    monkeypatch.setenv("NOETL_TOOL_CLUSTERS", "*")
    monkeypatch.setenv("NOETL_TOOL_TASKS", "*")
    answers(ecs, monkeypatch, "run_task", refusal("AccessDeniedException", 400, "not authorized to perform: iam:PassRole"))
    _, outcome = begun()
    assert "the stack's parameter ToolTaskRoles grants access" in message(outcome)


def test_a_failed_poll_is_repeated_and_a_denied_one_stops_the_task(slow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call, first = begun()
    answers(slow, monkeypatch, "describe_tasks", refusal("ServerException", 500))
    assert looked(call, first.result, 1).status == "outside"
    answers(slow, monkeypatch, "describe_tasks", refusal("AccessDeniedException", 400))
    outcome = looked(call, first.result, 1)
    assert kind(outcome) == "auth" and message(outcome).endswith("; the task was stopped")
    assert started(slow)[0].desired_status == "STOPPED"


def test_a_task_that_ecs_forgot_is_not_found_after_five_polls(ecs: Any) -> None:
    call, kept, looks = call_of(), {**planned().result, "task": "arn:aws:ecs:us-east-1:123456789012:task/jobs/gone"}, 0
    while (outcome := looked(call, kept, looks)).status == "outside":
        kept, looks = outcome.result, looks + 1
    assert (kind(outcome), looks) == ("not_found", 5)
    assert "its outcome is unknown" in message(outcome)


def test_pauses_between_polls_grow_up_to_five_minutes(slow: Any) -> None:
    call, first = begun()
    pauses = [looked(call, first.result, looks).meta["look_in_s"] for looks in (0, 1, 5, 15, 500)]
    assert pauses == [10, 12.5, pytest.approx(30.5, abs=0.1), pytest.approx(284, abs=1), 300]
    assert looked(call_of(poll="2m"), first.result, 3).meta["look_in_s"] == 120


def of_containers(
    *containers: tuple[str, int | None, str], code: str = "EssentialContainerExited", why: str = ""
) -> dict[str, Any]:
    seen = [{"name": n, **({} if x is None else {"exitCode": x}), **({"reason": r} if r else {})} for n, x, r in containers]
    at = datetime(2026, 7, 1, tzinfo=UTC)
    return {"taskArn": "arn:t/1", "stopCode": code, "stoppedReason": why, "containers": seen, "startedAt": at, "stoppedAt": at}


@pytest.mark.parametrize(
    ("task", "container", "error", "retryable", "code"),
    [
        (of_containers(("main", 0, "")), None, "ok", None, None),
        (of_containers(("side", 143, ""), ("main", 0, "")), "main", "ok", None, None),
        (of_containers(("side", 1, ""), ("main", 0, "")), None, "client_error", False, 1),
        (of_containers(("main", 3, "")), "main", "client_error", False, 3),
        (of_containers(("main", 137, "OutOfMemoryError: Container killed due to memory usage")), None, "limit", False, "OutOfMemoryError"),
        (
            of_containers(("main", None, "CannotPullContainerError: pull access denied"), code="TaskFailedToStart"),
            None, "auth", False, "CannotPullContainerError",
        ),
        (
            of_containers(("main", None, ""), code="TaskFailedToStart", why="CannotPullContainerError: x: not found"),
            None, "not_found", False, "CannotPullContainerError",
        ),
        (
            of_containers(("main", None, ""), code="TaskFailedToStart", why="ResourceInitializationError: i/o timeout"),
            None, "connection", True, "ResourceInitializationError",
        ),
        (of_containers(("main", None, ""), code="TaskFailedToStart", why="odd"), None, "server_error", True, "TaskFailedToStart"),
        (of_containers(("main", 143, ""), code="SpotInterruption"), None, "server_error", True, "SpotInterruption"),
        (of_containers(("main", 143, ""), code="UserInitiated", why="by hand"), None, "cancelled", False, "UserInitiated"),
        (of_containers(("main", 0, "")), "other", "schema", False, None),
    ],
)  # fmt: skip
def test_stopped_tasks_map_to_error_kinds_and_retryability(
    task: Any, container: str | None, error: str, retryable: Any, code: Any
) -> None:
    outcome = ended.outcome_of(task, container)
    assert kind(outcome) == error
    if outcome.error is not None:
        assert (outcome.error.retryable, outcome.error.code) == (retryable, code)
        assert outcome.error.details["containers"]


@pytest.mark.parametrize(
    ("failures", "error", "retryable"),
    [
        ([{"reason": "RESOURCE:MEMORY", "detail": "no instance"}], "server_error", True),
        ([{"reason": "Capacity is unavailable at this time. Please try again later"}], "server_error", True),
        ([{"reason": "MISSING"}], "not_found", False),
        ([{"reason": "ATTRIBUTE"}], "client_error", False),
        ([], "client_error", False),
    ],
)
def test_run_task_failures_map_to_error_kinds_and_retryability(failures: list[Any], error: str, retryable: bool) -> None:
    outcome = ended.not_started(failures)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == (error, retryable)
