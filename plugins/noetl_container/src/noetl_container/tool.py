"""`kind: container`: a task of ECS, started once, looked at now and then, stopped when nobody wants it any more
(docs/tools/container.md).

ECS itself keeps that a task is started once: the attempt is its client token. It is `startedBy` of the task, too, by which a
task is found that a worker started just before it died, also where a client token counts for nothing, as in emulators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from noetl_container import ended
from noetl_container.request import Request, request_of, started_by
from noetl_core.aws.clients import code_of
from noetl_core.engine.outcome import Outcome
from noetl_core.tools.actions import seconds
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import outcome_of
from noetl_core.tools.aws.rights import CLUSTERS, TASK_ROLES, TASKS, Right
from noetl_core.tools.base import ToolCall

FIRST_LOOK_S: Final = 10.0
GROWTH: Final = 1.25
LONGEST_LOOK_S: Final = 300.0
MOST_MISSING: Final = 6
"""Looks in a row at which ECS does not know the task, after which it is gone: what it has just started may be news to it."""
_NO_DEFINITION: Final = re.compile(r"TaskDefinition not found|Unable to (describe|find) task definition")
_CERTAIN: Final = frozenset({"rate_limit", "auth", "not_found", "client_error", "schema", "limit"})
"""Kinds of errors of a request that has done nothing. After others nobody knows."""


class ContainerTool:
    """Inputs `cluster`, `task_definition`, `container`, `command`, `env`, `cpu`, `memory`, `network`, `launch_type`,
    `capacity_provider`, `platform_version`, `poll`, `region`."""

    kind = "container"
    inline = False
    takes_secrets = False
    """False, because ECS shows the arguments of a task to all who may describe it."""

    def planned(self, call: ToolCall) -> Mapping[str, Any]:
        request = request_of(call)
        seconds(call, "poll")
        where = {
            "cluster": request.cluster,
            "region": request.region,
            "container": request.container,
            "started_by": started_by(call),
        }
        return {name: value for name, value in where.items() if value is not None}

    def run(self, call: ToolCall) -> Outcome:
        assert call.outside is not None  # the engine has recorded it
        kept = dict(call.outside.kept)
        try:
            ecs = client("ecs", kept.get("region"))
        except BotoCoreError as error:
            return outcome_of(self.kind, error)
        if "task" not in kept:
            try:
                found = _found(ecs, kept)
            except (ClientError, BotoCoreError) as error:
                return _unknown(call, error, CLUSTERS, kept["cluster"])
            if not found:
                return self._started(ecs, call, request_of(call), kept)
            kept["task"] = found[0]
        return self._looked(ecs, call, kept)

    def stop(self, call: ToolCall) -> Outcome:
        assert call.outside is not None
        kept = call.outside.kept
        try:
            ecs = client("ecs", kept.get("region"))
            tasks = [kept["task"]] if kept.get("task") else _found(ecs, kept)
            for task in tasks:
                _stop(ecs, kept["cluster"], task)
        except (ClientError, BotoCoreError) as error:
            if isinstance(error, ClientError) and code_of(error) == "ClusterNotFoundException":
                return Outcome.ok({"stopped": []})
            return outcome_of(self.kind, error, CLUSTERS, kept["cluster"])
        return Outcome.ok({"stopped": tasks})

    def _started(self, ecs: Any, call: ToolCall, request: Request, kept: dict[str, Any]) -> Outcome:
        name = kept["started_by"]
        try:
            answer = ecs.run_task(cluster=request.cluster, clientToken=name, startedBy=name, count=1, **request.arguments)
        except ClientError as error:
            response: Any = error.response
            if code_of(error) == "ConflictException" and response.get("resourceIds"):
                # it was started, from other templates' values
                return Outcome.outside({**kept, "task": response["resourceIds"][0]}, _pause(call))
            if _NO_DEFINITION.search(str(error)):
                message = f"container: there is no task definition {request.arguments['taskDefinition']}"
                return Outcome.failed("not_found", message, retryable=False, code=code_of(error))
            right, named = (TASK_ROLES, "") if "PassRole" in str(error) else (TASKS, request.family)
            return _unknown(call, error, right, named)
        except BotoCoreError as error:
            return _unknown(call, error, TASKS, request.family)
        if not answer["tasks"]:
            return ended.not_started(answer.get("failures", []))
        return Outcome.outside({**kept, "task": answer["tasks"][0]["taskArn"]}, _pause(call))

    def _looked(self, ecs: Any, call: ToolCall, kept: dict[str, Any]) -> Outcome:
        try:
            answer = ecs.describe_tasks(cluster=kept["cluster"], tasks=[kept["task"]])
        except (ClientError, BotoCoreError) as error:
            return self._not_seen(call, error, kept["cluster"])
        task = next(iter(answer.get("tasks", ())), None)
        if task is None:
            missing = int(kept.get("missing", 0)) + 1
            return (
                ended.gone(kept["task"])
                if missing >= MOST_MISSING
                else Outcome.outside({**kept, "missing": missing}, _pause(call))
            )
        kept.pop("missing", None)
        if task["lastStatus"] != "STOPPED":
            return Outcome.outside(kept, _pause(call))
        outcome = ended.outcome_of(task, kept.get("container"))
        meta = {"cluster": kept["cluster"], "task": kept["task"], "logs": _logs(ecs, task)}
        return replace(outcome, meta={"container": meta})

    def _not_seen(self, call: ToolCall, error: ClientError | BotoCoreError, cluster: str) -> Outcome:
        """Return what is to be done where a look failed: look again, or stop what cannot be watched."""
        assert call.outside is not None
        failed = outcome_of(self.kind, error, CLUSTERS, cluster)
        if failed.error is not None and failed.error.as_dict().get("retryable"):
            return Outcome.outside(call.outside.kept, _pause(call))
        stopped = self.stop(call)
        how = "the task was stopped" if stopped.error is None else f"the task could not be stopped: {stopped.error.message}"
        assert failed.error is not None
        return replace(failed, error=replace(failed.error, message=f"{failed.error.message}; {how}"))


def _found(ecs: Any, kept: Mapping[str, Any]) -> list[str]:
    """Return the tasks that an attempt has started, as far as they have not ended."""
    arns: list[str] = ecs.list_tasks(cluster=kept["cluster"], startedBy=kept["started_by"])["taskArns"]
    return arns


def _stop(ecs: Any, cluster: str, task: str) -> None:
    """Stop a task; one that has stopped, or that ECS no longer knows, is left as it is."""
    try:
        ecs.stop_task(cluster=cluster, task=task, reason="noetl: nobody waits for it any more")
    except ClientError as error:
        if code_of(error) != "InvalidParameterException":
            raise


def _unknown(call: ToolCall, error: ClientError | BotoCoreError, right: Right, name: str) -> Outcome:
    """Return the outcome of a request that starts a task: the error where nothing was started, else another look."""
    failed = outcome_of(call.kind, error, right, name)
    assert failed.error is not None
    assert call.outside is not None
    return failed if failed.error.kind in _CERTAIN else Outcome.outside(call.outside.kept, _pause(call))


def _pause(call: ToolCall) -> float:
    """Return the seconds until the next look: as `poll` says, else more from look to look."""
    assert call.outside is not None
    poll = seconds(call, "poll")
    return poll if poll is not None else min(FIRST_LOOK_S * GROWTH ** min(call.outside.looks, 50), LONGEST_LOOK_S)


def _logs(ecs: Any, task: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return where CloudWatch has the output of each container; nothing of what its definition does not say, or does not show."""
    try:
        definition = ecs.describe_task_definition(taskDefinition=task["taskDefinitionArn"])["taskDefinition"]
    except (ClientError, BotoCoreError) as error:
        return [{"unknown": f"the task definition cannot be read: {type(error).__name__}"}]
    number, found = str(task["taskArn"]).rpartition("/")[2], []
    for container in definition.get("containerDefinitions", ()):
        config = container.get("logConfiguration", {})
        options = config.get("options", {})
        if config.get("logDriver") == "awslogs" and "awslogs-group" in options:
            place = {"container": container["name"], "group": options["awslogs-group"]}
            if "awslogs-stream-prefix" in options:
                place["stream"] = f"{options['awslogs-stream-prefix']}/{container['name']}/{number}"
            found.append(place)
    return found
