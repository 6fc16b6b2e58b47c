"""Access of tools in AWS, and the messages of refusals; errors of AWS's services as outcomes."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions as aws
from botocore.exceptions import ClientError

from noetl_core.engine.outcome import Outcome
from noetl_core.ports import Forbidden
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.errors import errors_of, outcome_of
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke

OWN = '{"buckets": ["noetl-results"], "queues": ["noetl-commands"], "functions": ["noetl-admit"]}'


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a worker's function whose parameters name nothing."""
    monkeypatch.setenv("STACK_RESOURCES", OWN)
    for right in rights.RIGHTS:
        monkeypatch.setenv(right.variable, "")
    return monkeypatch


def refusal(right: rights.Right, name: str) -> str:
    with pytest.raises(Forbidden) as refused:
        rights.check(right, name)
    return str(refused.value)


def test_without_a_stack_the_callers_profile_decides() -> None:
    for right in rights.RIGHTS:
        rights.check(right, "anything")


def test_a_stack_that_grants_nothing_refuses_and_names_the_parameter(stack: pytest.MonkeyPatch) -> None:
    for right in rights.RIGHTS:
        told = f"the stack's parameter {right.parameter} does not name {right.noun} `x` (it names none)"
        assert refusal(right, "x") == told


@pytest.mark.parametrize(
    ("named", "opened", "closed"),
    [
        ("reports", ["reports"], ["report", "reports2", "Reports"]),
        ("raw-*,reports", ["raw-", "raw-2026", "reports"], ["xraw-1", "ra"]),
        ("*", ["anything"], ["noetl-results"]),
        ("a.c", ["a.c"], ["abc"]),
        ("*-in-*", ["x-in-y", "-in-"], ["x-in"]),
    ],
)
def test_a_parameter_grants_only_the_names_that_match_it(
    stack: pytest.MonkeyPatch, named: str, opened: list[str], closed: list[str]
) -> None:
    stack.setenv("NOETL_TOOL_BUCKETS", named)
    for name in opened:
        rights.check(rights.BUCKETS, name)
    for name in closed:
        refusal(rights.BUCKETS, name)


def test_a_refusal_lists_the_names_that_the_parameter_grants(stack: pytest.MonkeyPatch) -> None:
    stack.setenv("NOETL_TOOL_BUCKETS", "a,raw-*")
    told = refusal(rights.BUCKETS, "x")
    assert told == "the stack's parameter ToolBuckets does not name bucket `x` (it names: a, raw-*)"


def test_no_parameter_grants_the_engines_own_resources(stack: pytest.MonkeyPatch) -> None:
    for right in rights.RIGHTS:
        stack.setenv(right.variable, "*")
    stack.setenv("AWS_LAMBDA_FUNCTION_NAME", "noetl-worker")
    for right, name in [
        (rights.BUCKETS, "noetl-results"),
        (rights.QUEUES, "noetl-commands"),
        (rights.FUNCTIONS, "noetl-admit"),
        (rights.FUNCTIONS, "noetl-worker"),
    ]:
        assert refusal(right, name) == f"{right.noun} `{name}` is the engine's own: no parameter opens it to tools"
        rights.check(right, name + "2")


@pytest.mark.parametrize(
    "name",
    ["arn:aws:s3:us-east-1:111111111111:accesspoint/results", "/noetl-results", "noetl-results/7", "a/../noetl-results", "x\n"],
)
def test_an_asterisk_grants_neither_arns_nor_paths(stack: pytest.MonkeyPatch, name: str) -> None:
    for right in rights.RIGHTS:
        stack.setenv(right.variable, "*")
        assert "must be a name, not an ARN or a path" in refusal(right, name)


def test_an_inbox_key_that_may_resolve_outside_triggers_is_refused(stack: pytest.MonkeyPatch) -> None:
    stack.setenv("STACK_RESOURCES", '{"buckets": ["noetl-inbox"], "inbox": ["noetl-inbox"]}')
    rights.check_reading("noetl-inbox", "triggers/a/b..json")
    for key in ("triggers/../playbooks/x.yaml", "triggers/a/../../playbooks/x.yaml", "triggers/./../x", "playbooks/x"):
        with pytest.raises(Forbidden):
            rights.check_reading("noetl-inbox", key)


def test_a_pool_without_configuration_reaches_no_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_RESOURCES", "{}")
    assert "names none" in refusal(rights.BUCKETS, "x")


def answered(code: str, status: int = 400, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (answered("AccessDenied", 403), "auth", False),
        (answered("ExpiredToken"), "auth", False),
        (answered("WhoKnows", 403), "auth", False),
        (answered("NoSuchBucket", 404), "not_found", False),
        (answered("AWS.SimpleQueueService.NonExistentQueue"), "not_found", False),
        (answered("ThrottlingException"), "rate_limit", True),
        (answered("WhoKnows", 429), "rate_limit", True),
        (answered("EntityTooLarge"), "limit", False),
        (answered("ValidationException", message="Item size has exceeded the maximum"), "limit", False),
        (answered("ValidationException"), "client_error", False),
        (answered("PreconditionFailed", 412), "client_error", False),
        (answered("RequestTimeout"), "timeout", True),
        (answered("TransactionConflictException"), "server_error", True),
        (answered("InternalError", 500), "server_error", True),
        (aws.NoCredentialsError(), "auth", False),
        (aws.ProfileNotFound(profile="x"), "auth", False),
        (aws.NoRegionError(), "schema", False),
        (aws.ParamValidationError(report="x"), "schema", False),
        (aws.EndpointConnectionError(endpoint_url="http://x"), "connection", True),
        (aws.ConnectionClosedError(endpoint_url="http://x"), "connection", True),
        (aws.ConnectTimeoutError(endpoint_url="http://x"), "timeout", True),
        (aws.ReadTimeoutError(endpoint_url="http://x"), "timeout", True),
        (aws.DataNotFoundError(data_path="x"), "unknown", False),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else None,
)
def test_a_service_error_is_an_outcome_marked_retryable_or_not(error: Any, kind: str, retryable: bool) -> None:
    failed = outcome_of("s3", error).as_dict()["error"]
    assert (failed["kind"], failed["retryable"]) == (kind, retryable)
    assert failed["message"].startswith("s3: ")


def test_an_access_denied_error_names_the_parameter_that_grants_access(stack: pytest.MonkeyPatch) -> None:
    failed = outcome_of("s3", answered("AccessDenied", 403, "Access Denied"), rights.BUCKETS, "reports")
    assert failed.error is not None and failed.error.code == "AccessDenied"
    assert failed.error.message == (
        "s3: PutObject: Access Denied (AccessDenied); the stack's parameter ToolBuckets grants access to"
        " `reports`, unless a policy of the bucket or of its key denies it"
    )


class Asks:
    kind = "s3"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        if call.inputs:
            rights.check(rights.BUCKETS, "x")
        with errors_of(call.kind, rights.BUCKETS, "x"):
            raise answered("SlowDown", 503)


def test_refusals_and_service_errors_become_the_outcome_of_the_task(stack: pytest.MonkeyPatch) -> None:
    refused, busy = (
        invoke(Asks(), ToolCall("s3", {"a": 1})).as_dict()["error"],
        invoke(Asks(), ToolCall("s3", {})).as_dict()["error"],
    )
    assert (refused["kind"], refused["retryable"]) == ("auth", False)
    assert (busy["kind"], busy["retryable"], busy["code"]) == ("rate_limit", True, "SlowDown")
