"""The contracts over the AWS adapters against moto. It is no oracle (see the same suites in tests/e2e)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws
from moto.dynamodb.models import DynamoDBBackend

from tests.contract.aws import (
    DynamoEventStoreContract,
    DynamoExecutionIndexContract,
    DynamoGatesContract,
    DynamoKeyValuesContract,
    DynamoLimitPlacesContract,
    DynamoPlaybookCatalogContract,
    DynamoRateLimitsContract,
    DynamoTokenCacheContract,
    DynamoTriggersContract,
    KmsSealerContract,
    S3ResultStoreContract,
    SecretsManagerContract,
    SqsCommandQueueContract,
    environment,
)


@pytest.fixture(scope="module")
def aws() -> Iterator[None]:
    with mock_aws(), environment():
        yield


@pytest.fixture(autouse=True)
def one_put_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto looks at a condition and writes in two steps, so that two threads may both win; the tables it stands for do not."""
    lock, put = threading.Lock(), DynamoDBBackend.put_item

    def alone(*args: Any, **more: Any) -> Any:
        with lock:
            return put(*args, **more)

    monkeypatch.setattr(DynamoDBBackend, "put_item", alone)
    update = DynamoDBBackend.update_item

    def updated(*args: Any, **more: Any) -> Any:
        with lock:
            return update(*args, **more)

    monkeypatch.setattr(DynamoDBBackend, "update_item", updated)


class TestDynamoEventStore(DynamoEventStoreContract):
    pass


class TestDynamoPlaybookCatalog(DynamoPlaybookCatalogContract):
    pass


class TestDynamoExecutionIndex(DynamoExecutionIndexContract):
    pass


class TestDynamoGates(DynamoGatesContract):
    pass


class TestDynamoKeyValues(DynamoKeyValuesContract):
    pass


class TestDynamoLimitPlaces(DynamoLimitPlacesContract):
    pass


class TestDynamoRateLimits(DynamoRateLimitsContract):
    pass


class TestDynamoTokenCache(DynamoTokenCacheContract):
    pass


class TestDynamoTriggers(DynamoTriggersContract):
    pass


class TestS3ResultStore(S3ResultStoreContract):
    pass


class TestSecretsManager(SecretsManagerContract):
    pass


class TestKmsSealer(KmsSealerContract):
    pass


class TestSqsCommandQueue(SqsCommandQueueContract):
    pass
