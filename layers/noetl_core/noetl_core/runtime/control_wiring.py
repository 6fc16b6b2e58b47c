"""Wires the control plane on AWS, with adapters for the services that the environment names. Only functions import this."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit

from noetl_core.adapters.aws.catalog_table.catalog import ABOUT_S, DynamoPlaybookCatalog
from noetl_core.adapters.aws.catalog_table.gates import DynamoGates
from noetl_core.adapters.aws.catalog_table.index import PARTITIONS, DynamoExecutionIndex
from noetl_core.adapters.aws.catalog_table.limits import DynamoLimitPlaces
from noetl_core.adapters.aws.catalog_table.output import DynamoRunningOutput
from noetl_core.adapters.aws.catalog_table.rates import DynamoRateLimits
from noetl_core.adapters.aws.catalog_table.triggers import DynamoTriggers
from noetl_core.adapters.aws.clients import requests_checked_by
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.functions.snapstart import on_snapshots
from noetl_core.adapters.aws.gathering import GatheringQueue
from noetl_core.adapters.aws.named import callback_key, inbox, results
from noetl_core.adapters.aws.queue import SqsCommandQueue
from noetl_core.adapters.clock import SystemClock
from noetl_core.adapters.marks import FileMarks
from noetl_core.control.children import SubPlaybooks
from noetl_core.control.core import RETENTION_S, Control
from noetl_core.control.deployment.inbound_sources import InboundSources
from noetl_core.control.deployment.worker_tools import WorkerTools
from noetl_core.control.limits.places import SharedLimits
from noetl_core.control.recent_registrations import RecentRegistrations
from noetl_core.control.recorded_deaths import record_deaths
from noetl_core.dsl.sections.failures import default_handler
from noetl_core.engine.state import State
from noetl_core.engine.warnings import count_of
from noetl_core.ports import Deadline

MESSAGE = "message:"
"""Prefix of marks of messages; marks without it are executions."""

on_snapshots("dynamodb", "s3", "sqs")


@cache
def control() -> Control:
    """Return the control plane for the admit, router and sweeper functions; one per process."""
    catalog = os.environ["CATALOG_TABLE"]
    pools = json.loads(os.environ["COMMAND_QUEUES"])
    return Control(
        store=DynamoEventStore(os.environ["EVENTS_TABLE"], results()),
        queue=GatheringQueue(SqsCommandQueue(pools, os.environ["CONTROL_QUEUE_URL"], results(), _dead_letters())),
        results=results(),
        catalog=DynamoPlaybookCatalog(catalog),
        index=DynamoExecutionIndex(catalog, partitions=int(os.environ.get("INDEX_PARTITIONS", PARTITIONS))),
        gates=DynamoGates(catalog),
        clock=SystemClock(),
        children=SubPlaybooks(),
        triggers=DynamoTriggers(catalog),
        limits=SharedLimits(DynamoLimitPlaces(catalog), DynamoRateLimits(catalog)),
        retention_s=int(os.environ.get("RETENTION_S", RETENTION_S)),
        callback_key=callback_key(),
        on_end=count_end,
        strict=os.environ.get("STRICT") == "true",
        on_failure=default_handler(os.environ.get("ON_FAILURE", "")),
        link=os.environ.get("EXECUTION_LINK", ""),
        asks=os.environ.get("ASKS") == "yes",
        pools=frozenset(pools),
        output=DynamoRunningOutput(catalog, SystemClock()),
        inbound_sources=InboundSources.from_environment(os.environ) if "TRIGGER_QUEUES" in os.environ else None,
        worker_tools=WorkerTools.from_environment(os.environ) if "TOOL_LAYERS" in os.environ else None,
        registrations=RecentRegistrations(ABOUT_S),
        marks=marks(),
        risked=set(),
    )


@contextmanager
def control_until(deadline: Deadline) -> Iterator[Control]:
    """Yield the control plane for work that must end by `deadline`, with its requests."""
    with requests_checked_by(deadline.check):
        yield control().within(deadline)


def count_end(state: State) -> None:
    """Add the failure and the warnings of an ended execution to the metrics of the function."""
    metrics = Metrics()  # the counts of all instances of a process are one set
    if state.status == "failed":
        metrics.add_metric("ExecutionsFailed", MetricUnit.Count, 1)
    if count := count_of(state):
        metrics.add_metric("Warnings", MetricUnit.Count, count)
        metrics.add_metric("ExecutionsWithWarnings", MetricUnit.Count, 1)


@cache
def marks() -> FileMarks:
    """Return the marks of evaluations, which this environment keeps when its process is restarted.

    Each stack has its own, even on an emulator's machine.
    """
    stack = sha256(f"{os.environ.get('AWS_ENDPOINT_URL', '')} {os.environ['EVENTS_TABLE']}".encode()).hexdigest()[:16]
    return FileMarks(Path(tempfile.gettempdir()) / f"noetl-marks-{os.getuid()}" / stack)


@cache
def left_messages() -> frozenset[str]:
    """Record the evaluations that processes of this environment left behind when they died, once in this process.

    Return the messages of queues among them.
    """
    left = marks().left_behind()
    if left:
        record_deaths(control(), [name for name in left if not name.startswith(MESSAGE)])
    return frozenset(name.removeprefix(MESSAGE) for name in left if name.startswith(MESSAGE))


def commands() -> GatheringQueue:
    """Return the control plane's command queue."""
    queue = control().queue
    assert isinstance(queue, GatheringQueue)
    return queue


def _dead_letters() -> dict[str, str]:
    """Return the URLs of dead-letter queues by their source queues, for the function that shows them."""
    found: dict[str, str] = json.loads(os.environ.get("DEAD_LETTERS", "{}"))
    return found


__all__ = ["MESSAGE", "commands", "control", "control_until", "inbox", "left_messages", "marks", "results"]
