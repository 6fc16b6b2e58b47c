"""The wiring on AWS: adapters for the services that the environment names. Only functions and deploy tools import this
module."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache

from noetl_core.adapters.aws.catalog import DynamoExecutionIndex, DynamoGates, DynamoPlaybookCatalog
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.queue import SqsCommandQueue
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.clock import SystemClock
from noetl_core.control.children import SubPlaybooks
from noetl_core.control.core import RETENTION_S, Control
from noetl_core.ports import Inbox, ResultStore, Sealer
from noetl_core.worker.service import Worker


@cache
def results() -> ResultStore:
    """Return the results bucket."""
    return S3ResultStore(os.environ["RESULTS_BUCKET"])


@cache
def inbox() -> Inbox:
    """Return the inbox bucket, for the function that handles uploads."""
    from noetl_core.adapters.aws.inbox import S3Inbox

    return S3Inbox(os.environ["RESULTS_BUCKET"])


@cache
def control() -> Control:
    """Return the control plane for the admit, router and sweeper functions; one per process."""
    catalog = os.environ["CATALOG_TABLE"]
    pools = json.loads(os.environ["COMMAND_QUEUES"])
    return Control(
        store=DynamoEventStore(os.environ["EVENTS_TABLE"], results()),
        queue=SqsCommandQueue(pools, os.environ["CONTROL_QUEUE_URL"], results(), _dead_letters()),
        results=results(),
        catalog=DynamoPlaybookCatalog(catalog),
        index=DynamoExecutionIndex(catalog),
        gates=DynamoGates(catalog),
        clock=SystemClock(),
        children=SubPlaybooks(),
        retention_s=int(os.environ.get("RETENTION_S", RETENTION_S)),
        callback_key=_callback_key(),
        pools=frozenset(pools),
    )


@cache
def worker() -> Worker:
    """Return the worker; one per process. It has no access to the queues."""
    from noetl_core.adapters.aws.secrets import RecentSecrets
    from noetl_core.playbooks import PlaybookCache
    from noetl_core.tools.registry import ToolRegistry
    from noetl_core.worker.gates import RecentGates

    catalog = DynamoPlaybookCatalog(os.environ["CATALOG_TABLE"])
    return Worker(
        store=DynamoEventStore(os.environ["EVENTS_TABLE"], results()),
        results=results(),
        gates=RecentGates(DynamoGates(os.environ["CATALOG_TABLE"]), SystemClock()),
        clock=SystemClock(),
        playbooks=PlaybookCache(catalog),
        registered=catalog.by_digest,
        tools=ToolRegistry(),
        secrets=RecentSecrets(os.environ.get("SECRETS_PREFIX", "noetl/")),
        sealer=_sealer(),
        callback_key=_callback_key(),
        callback_url=_callback_url(),
        name=os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", f"worker-{os.getpid()}")[-32:],
    )


def _dead_letters() -> dict[str, str]:
    """Return queue URLs of dead letters, by the queue from which they come, for the function that shows them."""
    found: dict[str, str] = json.loads(os.environ.get("DEAD_LETTERS", "{}"))
    return found


def _sealer() -> Sealer | None:
    """Return the sealer; None where the role has no key: the python pool, which gets no secrets either."""
    key = os.environ.get("SEALING_KEY")
    if not key:
        return None
    from noetl_core.adapters.aws.sealer import KmsSealer

    return KmsSealer(key)


def _callback_key() -> Callable[[], bytes] | None:
    """Return the key of callback tokens; None where the role must not read it: router, sweeper, python pool."""
    secret = os.environ.get("CALLBACK_SECRET")
    if not secret:
        return None
    from noetl_core.adapters.aws.keys import generated_key

    return generated_key(secret)


def _callback_url() -> str:
    """Return the API's address; an emulator's own form where the environment names one."""
    api, stage, endpoint = (os.environ.get(name, "") for name in ("API_ID", "API_STAGE", "AWS_ENDPOINT_URL"))
    base = f"{endpoint.rstrip('/')}/_aws/execute-api/{api}/{stage}"
    if not endpoint:
        base = f"https://{api}.execute-api.{os.environ.get('AWS_REGION', '')}.{os.environ.get('API_SUFFIX', '')}/{stage}"
    return base + "/api/callbacks/{token}"
