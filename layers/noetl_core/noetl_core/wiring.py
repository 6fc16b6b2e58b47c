"""The wiring on AWS: adapters over the services named in the environment. Only functions and deploy tools import this."""

from __future__ import annotations

import json
import os
from functools import cache

from noetl_core.adapters.aws.catalog import DynamoExecutionIndex, DynamoGates, DynamoPlaybookCatalog
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.queue import SqsCommandQueue
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.clock import SystemClock
from noetl_core.control.core import RETENTION_S, Control
from noetl_core.ports import ResultStore
from noetl_core.worker.service import Worker


@cache
def results() -> ResultStore:
    """The results bucket."""
    return S3ResultStore(os.environ["RESULTS_BUCKET"])


@cache
def control() -> Control:
    """The control plane: admit, router and sweeper functions, once per process."""
    catalog = os.environ["CATALOG_TABLE"]
    return Control(
        store=DynamoEventStore(os.environ["EVENTS_TABLE"], results()),
        queue=SqsCommandQueue(json.loads(os.environ["COMMAND_QUEUES"]), os.environ["CONTROL_QUEUE_URL"], results()),
        results=results(),
        catalog=DynamoPlaybookCatalog(catalog),
        index=DynamoExecutionIndex(catalog),
        gates=DynamoGates(catalog),
        clock=SystemClock(),
        retention_s=int(os.environ.get("RETENTION_S", RETENTION_S)),
    )


@cache
def worker() -> Worker:
    """The data plane, once per process. It has no way to the queues."""
    from noetl_core.adapters.aws.secrets import SecretsManager
    from noetl_core.playbooks import PlaybookCache
    from noetl_core.tools.registry import ToolRegistry

    catalog = os.environ["CATALOG_TABLE"]
    return Worker(
        store=DynamoEventStore(os.environ["EVENTS_TABLE"], results()),
        results=results(),
        gates=DynamoGates(catalog),
        clock=SystemClock(),
        playbooks=PlaybookCache(DynamoPlaybookCatalog(catalog)),
        tools=ToolRegistry(),
        secrets=SecretsManager(os.environ.get("SECRETS_PREFIX", "noetl/")),
        name=os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", f"worker-{os.getpid()}")[-32:],
    )
