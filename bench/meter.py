"""Invocations and billed time of a stack's functions, from the report lines that Lambda writes to their logs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import boto3

from noetl_infra.deploy import local_environment
from noetl_infra.stack import Stack

FUNCTIONS = {
    "admit": "AdmitFunctionName",
    "router": "RouterFunctionName",
    "ask": "AskFunctionName",
    "worker": "WorkerFunctionName",
    "sweeper": "SweeperFunctionName",
}
"""Short name -> the output of template.yaml with the deployed name."""

_BILLED = re.compile(r"Billed Duration: ([\d.]+) ms")


@dataclass(frozen=True, slots=True)
class Used:
    """The number of ended invocations, and their billed milliseconds."""

    invocations: int = 0
    billed_ms: float = 0.0

    def __sub__(self, before: Used) -> Used:
        return Used(self.invocations - before.invocations, self.billed_ms - before.billed_ms)


class Functions:
    """The functions of a stack and their log groups."""

    def __init__(self, stack: Stack) -> None:
        env = local_environment(stack.endpoint)
        session = boto3.Session(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], region_name=env["AWS_DEFAULT_REGION"])
        self._logs = session.client("logs", endpoint_url=stack.endpoint)
        functions = session.client("lambda", endpoint_url=stack.endpoint)
        self._groups = {}
        for short, output in FUNCTIONS.items():
            name = stack.outputs.get(output)
            if name is None:  # a function that the stack does without
                continue
            logging: Any = functions.get_function_configuration(FunctionName=name).get("LoggingConfig", {})
            self._groups[short] = logging.get("LogGroup", f"/aws/lambda/{name}")

    def take(self) -> dict[str, Used]:
        """Return the usage of each function since its deployment."""
        return {short: self._used(group) for short, group in self._groups.items()}

    def _used(self, group: str) -> Used:
        pages = self._logs.get_paginator("filter_log_events").paginate(logGroupName=group)
        billed = [ms for page in pages for event in page["events"] if (ms := billed_ms(event["message"])) is not None]
        return Used(len(billed), sum(billed))


def billed_ms(line: str) -> float | None:
    """Return the billed milliseconds of a report line, as text or as JSON; None for every other line."""
    if line.startswith("REPORT RequestId"):
        found = _BILLED.search(line)
        return float(found.group(1)) if found else None
    if '"platform.report"' in line:
        return float(json.loads(line)["record"]["metrics"]["billedDurationMs"])
    return None
