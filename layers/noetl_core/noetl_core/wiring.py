"""The wiring on AWS: adapters over the services named in the environment. Only functions and deploy tools import this."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from noetl_core.adapters.aws.catalog import DynamoPlaybookCatalog
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.gates import DynamoGates
from noetl_core.adapters.aws.index import DynamoExecutionIndex
from noetl_core.adapters.aws.queue import SqsCommandQueue
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.clock import SystemClock
from noetl_core.control.children import SubPlaybooks
from noetl_core.control.core import RETENTION_S, Control
from noetl_core.ports import Inbox, ResultStore, Sealer

if TYPE_CHECKING:
    from noetl_core.worker.service import Worker


@cache
def results() -> ResultStore:
    """The results bucket."""
    return S3ResultStore(os.environ["RESULTS_BUCKET"])


@cache
def inbox() -> Inbox:
    """The inbox bucket, for the function that takes uploads."""
    from noetl_core.adapters.aws.inbox import S3Inbox

    return S3Inbox(os.environ["RESULTS_BUCKET"])


@cache
def control() -> Control:
    """The control plane: admit, router and sweeper functions, once per process."""
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
    """The data plane, once per process. It has no way to the queues. What it is made of is a fifth of the start of a function
    that is no worker, so it is loaded here."""
    from noetl_core.adapters.aws.secrets import RecentSecrets
    from noetl_core.playbooks import PlaybookCache
    from noetl_core.tools.registry import ToolRegistry
    from noetl_core.worker.gates import RecentGates
    from noetl_core.worker.service import Worker

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
    """Queue URLs by what was in the queue, for the function that shows them."""
    found: dict[str, str] = json.loads(os.environ.get("DEAD_LETTERS", "{}"))
    return found


def _sealer() -> Sealer | None:
    """None where the role has no key: the python pool, which is given no secrets either."""
    key = os.environ.get("SEALING_KEY")
    if not key:
        return None
    from noetl_core.adapters.aws.sealer import KmsSealer

    return KmsSealer(key)


def _callback_key() -> Callable[[], bytes] | None:
    """None where the role may not read it: the router, the sweeper, the python pool."""
    secret = os.environ.get("CALLBACK_SECRET")
    if not secret:
        return None
    from noetl_core.adapters.aws.keys import generated_key

    return generated_key(secret)


def _callback_url() -> str:
    """The API's address; an emulator's own form where the environment names one."""
    api, stage, endpoint = (os.environ.get(name, "") for name in ("API_ID", "API_STAGE", "AWS_ENDPOINT_URL"))
    base = f"{endpoint.rstrip('/')}/_aws/execute-api/{api}/{stage}"
    if not endpoint:
        base = f"https://{api}.execute-api.{os.environ.get('AWS_REGION', '')}.{os.environ.get('API_SUFFIX', '')}/{stage}"
    return base + "/api/callbacks/{token}"
