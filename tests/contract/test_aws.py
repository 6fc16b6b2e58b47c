"""The contracts over the AWS adapters against moto. It is no oracle (see the same suites in tests/e2e)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from moto.dynamodb.responses import DynamoHandler

from tests.contract.aws import (
    DynamoEventStoreContract,
    DynamoExecutionIndexContract,
    DynamoGatesContract,
    DynamoKeyValuesContract,
    DynamoLimitPlacesContract,
    DynamoPlaybookCatalogContract,
    DynamoRateLimitsContract,
    DynamoRequestRatesContract,
    DynamoTokenCacheContract,
    DynamoTriggersContract,
    KmsSealerContract,
    S3ResultStoreContract,
    SecretsManagerContract,
    SqsCommandQueueContract,
    environment,
)
from tests.fast_moto import mock_aws


@pytest.fixture(scope="module")
def aws() -> Iterator[None]:
    with mock_aws(), environment():
        yield


@pytest.fixture(autouse=True)
def one_write_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto looks at a condition, writes, and reads the item for its answer in three steps, so that two threads may both win, or
    get the same answer; the tables it stands for do not."""
    lock = threading.Lock()

    def alone(write: Any) -> Any:
        def one(*args: Any, **more: Any) -> Any:
            with lock:
                return write(*args, **more)

        return one

    for name in ("put_item", "update_item"):
        monkeypatch.setattr(DynamoHandler, name, alone(getattr(DynamoHandler, name)))


@pytest.mark.nightly  # on the embedded stack at each commit
class TestDynamoEventStore(DynamoEventStoreContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestDynamoPlaybookCatalog(DynamoPlaybookCatalogContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit, where it takes half as long
class TestDynamoExecutionIndex(DynamoExecutionIndexContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestDynamoGates(DynamoGatesContract):
    pass


class TestDynamoKeyValues(DynamoKeyValuesContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestDynamoLimitPlaces(DynamoLimitPlacesContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestDynamoRateLimits(DynamoRateLimitsContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestDynamoRequestRates(DynamoRequestRatesContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestDynamoTokenCache(DynamoTokenCacheContract):
    pass


class TestDynamoTriggers(DynamoTriggersContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestS3ResultStore(S3ResultStoreContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestSecretsManager(SecretsManagerContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestKmsSealer(KmsSealerContract):
    pass


@pytest.mark.nightly  # on the embedded stack at each commit
class TestSqsCommandQueue(SqsCommandQueueContract):
    pass
