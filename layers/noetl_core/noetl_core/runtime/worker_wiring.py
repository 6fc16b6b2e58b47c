"""Wires the worker on AWS. Only the worker function imports this, so that no other loads the worker and its tools."""

from __future__ import annotations

import os
from functools import cache
from math import inf

from noetl_core.adapters.aws.asks import LambdaAsks
from noetl_core.adapters.aws.catalog_table.access_tokens import DynamoTokenCache
from noetl_core.adapters.aws.catalog_table.catalog import DynamoPlaybookCatalog
from noetl_core.adapters.aws.catalog_table.gates import DynamoGates
from noetl_core.adapters.aws.catalog_table.key_values import DynamoKeyValues
from noetl_core.adapters.aws.catalog_table.output import DynamoRunningOutput
from noetl_core.adapters.aws.catalog_table.rates import DynamoRateLimits
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.functions.snapstart import on_snapshots
from noetl_core.adapters.aws.named import callback_key, results
from noetl_core.adapters.aws.sealer import KmsSealer
from noetl_core.adapters.aws.secrets import RecentSecrets
from noetl_core.adapters.clock import SystemClock
from noetl_core.engine.loops import SpreadRule
from noetl_core.playbooks.parsed import PlaybookCache
from noetl_core.ports import Clock, Sealer
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.claiming.asker import Asker
from noetl_core.worker.claiming.gates import RecentGates
from noetl_core.worker.service import Worker

on_snapshots("dynamodb", "s3", "secretsmanager", "lambda", disconnect=lambda: disconnect())  # defined below


@cache
def worker() -> Worker:
    """Return the worker; one per process. It has no access to the queues."""
    catalog, clock = DynamoPlaybookCatalog(os.environ["CATALOG_TABLE"]), SystemClock()
    stored_gates = DynamoGates(os.environ["CATALOG_TABLE"])
    return Worker(
        store=DynamoEventStore(os.environ["EVENTS_TABLE"], results()),
        results=results(),
        gates=RecentGates(stored_gates, clock, stored_gates.gates),
        clock=clock,
        playbooks=PlaybookCache(catalog),
        registered=catalog.by_digest,
        paths_required=True,
        tools=_tools(),
        secrets=RecentSecrets(os.environ.get("SECRETS_PREFIX", "noetl/")),
        sealer=_sealer(),
        token_cache=DynamoTokenCache(os.environ["CATALOG_TABLE"]),
        rates=DynamoRateLimits(os.environ["CATALOG_TABLE"]) if os.environ.get("SEALING_KEY") else None,
        output=DynamoRunningOutput(os.environ["CATALOG_TABLE"], clock) if os.environ.get("SEALING_KEY") else None,
        spread=_spread_rule(),
        callback_key=callback_key(),
        callback_url=_callback_url(),
        asker=asker_of(clock),
        name=os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", f"worker-{clock.nonce()}")[-32:],
    )


def disconnect() -> None:
    """Close the connections of tools, because many processes start from one snapshot."""
    if worker.cache_info().currsize:
        worker().tools.close()


def gates() -> RecentGates:
    """Return the worker's gates."""
    gates = worker().gates
    assert isinstance(gates, RecentGates)
    return gates


def _tools() -> ToolRegistry:
    """Return the tools. Those of the python pool have no `key_values`, because its role has no access to the table."""
    tools = ToolRegistry()
    if os.environ.get("SEALING_KEY"):
        tools.key_values = DynamoKeyValues(os.environ["CATALOG_TABLE"])
    return tools


def _sealer() -> Sealer | None:
    """Return the sealer; None if the role has no key: the python pool, which gets no secrets either."""
    key = os.environ.get("SEALING_KEY")
    return KmsSealer(key) if key else None


def asker_of(clock: Clock) -> Asker | None:
    """Return the asker; None on a stack without an ask function. With snapshots functions are called by their alias."""
    function = os.environ.get("ASK_FUNCTION")
    if not function:
        return None
    return Asker(LambdaAsks(f"{function}:live" if os.environ.get("DEPLOYMENT") else function), clock)


def _spread_rule() -> SpreadRule:
    """Return the rule for distributing loops.

    Workers of an emulator share the processors of one machine, so more of them are not faster.
    """
    return SpreadRule(busy=inf) if os.environ.get("AWS_ENDPOINT_URL") else SpreadRule()


def _callback_url() -> str:
    """Return the URL of the API, in the emulator's form if the environment names one."""
    api, stage, endpoint = (os.environ.get(name, "") for name in ("API_ID", "API_STAGE", "AWS_ENDPOINT_URL"))
    base = f"{endpoint.rstrip('/')}/_aws/execute-api/{api}/{stage}"
    if not endpoint:
        base = f"https://{api}.execute-api.{os.environ.get('AWS_REGION', '')}.{os.environ.get('API_SUFFIX', '')}/{stage}"
    return base + "/api/callbacks/{token}"


__all__ = ["gates", "results", "worker"]
