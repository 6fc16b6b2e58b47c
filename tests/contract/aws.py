"""The contracts over AWS adapters, for whatever endpoint the environment names: moto, MiniStack, LocalStack, AWS.

Tables and queues are made as template.yaml says. A test module defines the fixture `aws`, which makes the environment name an
endpoint (or mocks it), and subclasses what it wants to run.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.aws.catalog_table.access_tokens import DynamoTokenCache
from noetl_core.adapters.aws.catalog_table.catalog import DynamoPlaybookCatalog
from noetl_core.adapters.aws.catalog_table.gates import DynamoGates
from noetl_core.adapters.aws.catalog_table.index import DynamoExecutionIndex
from noetl_core.adapters.aws.catalog_table.key_values import DynamoKeyValues
from noetl_core.adapters.aws.catalog_table.limits import DynamoLimitPlaces
from noetl_core.adapters.aws.catalog_table.rates import DynamoRateLimits, DynamoRequestRates
from noetl_core.adapters.aws.catalog_table.triggers import DynamoTriggers
from noetl_core.adapters.aws.clients import client, forget_clients
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.queue import SqsCommandQueue, read_command
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.aws.sealer import KmsSealer
from noetl_core.adapters.aws.secrets import SecretsManager
from noetl_core.engine.records import Command
from noetl_core.ports import (
    CommandQueue,
    EventStore,
    ExecutionIndex,
    Gates,
    KeyValues,
    LimitPlaces,
    PlaybookCatalog,
    RateLimits,
    RequestRates,
    ResultStore,
    Sealer,
    Secrets,
    TokenCache,
    TriggerStore,
)
from noetl_core.testing.contracts.access_tokens import TokenCacheContract
from noetl_core.testing.contracts.catalog import LastingGatesContract, LastingIndexContract, PlaybookCatalogContract
from noetl_core.testing.contracts.clocks import FakeClock
from noetl_core.testing.contracts.event_store import DurableLogContract
from noetl_core.testing.contracts.key_values import KeyValuesContract
from noetl_core.testing.contracts.limits import LimitPlacesContract
from noetl_core.testing.contracts.rates import RateLimitsContract, RequestRatesContract
from noetl_core.testing.contracts.stores import (
    CommandQueueContract,
    Receive,
    ResultStoreContract,
    SealerContract,
    SecretsContract,
)
from noetl_core.testing.contracts.triggers import TriggerStoreContract
from noetl_infra.template_file import read_template

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
REGION = "us-east-1"
_numbers = itertools.count(1)
_TABLE = (
    "BillingMode",
    "AttributeDefinitions",
    "KeySchema",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "StreamSpecification",
)


@contextmanager
def environment(**names: str) -> Iterator[None]:
    """Environment variables and clients of their own for a while."""
    names = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION, **names}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    forget_clients()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        forget_clients()


@cache
def resource(name: str) -> Mapping[str, Any]:
    """Properties of a resource of template.yaml."""
    properties: Mapping[str, Any] = read_template(TEMPLATE)["Resources"][name]["Properties"]
    return properties


def make_table(name: str) -> str:
    """A table of template.yaml, empty, under a name of its own."""
    table = f"{name}-{os.getpid()}-{next(_numbers)}"
    wanted = {k: v for k, v in resource(name).items() if k in _TABLE}
    if "StreamSpecification" in wanted:
        wanted["StreamSpecification"] = {"StreamEnabled": True, **wanted["StreamSpecification"]}
    client("dynamodb").create_table(TableName=table, **wanted)
    client("dynamodb").get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
    return table


def make_queue(name: str) -> str:
    """A queue of template.yaml without its dead letters; its URL."""
    attributes = {k: str(v) for k, v in resource(name).items() if isinstance(v, int) and not isinstance(v, bool)}
    queue = f"{name}-{os.getpid()}-{next(_numbers)}"
    return str(client("sqs").create_queue(QueueName=queue, Attributes=attributes)["QueueUrl"])


def make_bucket() -> str:
    bucket = f"contract-{os.getpid()}-{next(_numbers)}"
    client("s3").create_bucket(Bucket=bucket)
    return bucket


class _Aws:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def bucket(self, aws: None) -> str:
        return make_bucket()


class DynamoEventStoreContract(_Aws, DurableLogContract):
    @pytest.fixture
    def store(self, bucket: str, clock: FakeClock) -> EventStore:
        return DynamoEventStore(make_table("EventsTable"), S3ResultStore(bucket), clock)


class DynamoPlaybookCatalogContract(_Aws, PlaybookCatalogContract):
    @pytest.fixture
    def catalog(self, aws: None) -> DynamoPlaybookCatalog:
        return DynamoPlaybookCatalog(make_table("CatalogTable"))

    @pytest.fixture
    def other(self, catalog: DynamoPlaybookCatalog) -> PlaybookCatalog:
        return DynamoPlaybookCatalog(catalog.table)


class DynamoExecutionIndexContract(_Aws, LastingIndexContract):
    @pytest.fixture
    def index(self, aws: None, clock: FakeClock) -> ExecutionIndex:
        return DynamoExecutionIndex(make_table("CatalogTable"), clock)


class DynamoGatesContract(_Aws, LastingGatesContract):
    @pytest.fixture
    def gates(self, aws: None, clock: FakeClock) -> Gates:
        return DynamoGates(make_table("CatalogTable"), clock)


class DynamoLimitPlacesContract(_Aws, LimitPlacesContract):
    @pytest.fixture
    def places(self, aws: None) -> LimitPlaces:
        return DynamoLimitPlaces(make_table("CatalogTable"))


class DynamoRateLimitsContract(_Aws, RateLimitsContract):
    @pytest.fixture
    def rates(self, aws: None) -> RateLimits:
        return DynamoRateLimits(make_table("CatalogTable"))


class DynamoRequestRatesContract(_Aws, RequestRatesContract):
    @pytest.fixture
    def requests(self, aws: None) -> RequestRates:
        return DynamoRequestRates(make_table("CatalogTable"))


class DynamoTokenCacheContract(_Aws, TokenCacheContract):
    @pytest.fixture
    def tokens(self, aws: None) -> TokenCache:
        return DynamoTokenCache(make_table("CatalogTable"))


class DynamoKeyValuesContract(_Aws, KeyValuesContract):
    @pytest.fixture
    def values(self, aws: None) -> KeyValues:
        return DynamoKeyValues(make_table("CatalogTable"))


class DynamoTriggersContract(_Aws, TriggerStoreContract):
    @pytest.fixture
    def triggers(self, aws: None) -> TriggerStore:
        return DynamoTriggers(make_table("CatalogTable"))


class S3ResultStoreContract(_Aws, ResultStoreContract):
    @pytest.fixture
    def results(self, bucket: str) -> ResultStore:
        return S3ResultStore(bucket)


class KmsSealerContract(SealerContract):
    @pytest.fixture
    def sealer(self, aws: None) -> Sealer:
        return KmsSealer(client("kms").create_key()["KeyMetadata"]["KeyId"])

    @pytest.fixture
    def another(self, aws: None) -> Sealer:
        return KmsSealer(client("kms").create_key()["KeyMetadata"]["Arn"])


class SecretsManagerContract(_Aws, SecretsContract):
    @pytest.fixture
    def secrets(self, aws: None) -> Secrets:
        return SecretsManager(f"contract-{os.getpid()}-{next(_numbers)}/")


class SqsCommandQueueContract(_Aws, CommandQueueContract):
    @pytest.fixture
    def urls(self, aws: None) -> Mapping[str, str]:
        return {pool: make_queue("CommandQueue") for pool in ("default", "python")}

    @pytest.fixture
    def control_url(self, aws: None) -> str:
        return make_queue("ControlQueue")

    @pytest.fixture
    def queue(self, urls: Mapping[str, str], control_url: str, bucket: str) -> CommandQueue:
        return SqsCommandQueue(urls, control_url, S3ResultStore(bucket))

    @pytest.fixture
    def receive(self, urls: Mapping[str, str], bucket: str) -> Receive:
        def receive(pool: str) -> Sequence[Command]:
            return [read_command(body, S3ResultStore(bucket)) for body in bodies(urls[pool])]

        return receive

    def test_a_wake_names_the_execution_on_the_control_queue(self, queue: CommandQueue, control_url: str) -> None:
        queue.wake("7")
        queue.wake("8", delay_s=900)
        assert bodies(control_url) == ['{"wake": "7"}']


def bodies(url: str) -> list[str]:
    """Every visible message of a queue, taken."""
    found: list[str] = []
    while messages := client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            found.append(message["Body"])
            client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found
