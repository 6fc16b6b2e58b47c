"""The contracts over the AWS adapters against the running stack, in tables and queues of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noetl_infra.stack import Stack
from tests.contract.aws import (
    DynamoEventStoreContract,
    DynamoExecutionIndexContract,
    DynamoGatesContract,
    DynamoLimitPlacesContract,
    DynamoPlaybookCatalogContract,
    DynamoRateLimitsContract,
    DynamoRequestRatesContract,
    DynamoTokenCacheContract,
    KmsSealerContract,
    S3ResultStoreContract,
    SecretsManagerContract,
    SqsCommandQueueContract,
    environment,
)


@pytest.fixture(scope="module")
def aws(stack: Stack) -> Iterator[None]:
    with environment(AWS_ENDPOINT_URL=stack.endpoint):
        yield


class TestDynamoEventStore(DynamoEventStoreContract):
    pass


class TestDynamoPlaybookCatalog(DynamoPlaybookCatalogContract):
    pass


class TestDynamoExecutionIndex(DynamoExecutionIndexContract):
    pass


class TestDynamoGates(DynamoGatesContract):
    pass


class TestDynamoLimitPlaces(DynamoLimitPlacesContract):
    pass


class TestDynamoRateLimits(DynamoRateLimitsContract):
    pass


class TestDynamoRequestRates(DynamoRequestRatesContract):
    pass


class TestDynamoTokenCache(DynamoTokenCacheContract):
    pass


class TestS3ResultStore(S3ResultStoreContract):
    pass


class TestKmsSealer(KmsSealerContract):
    pass


class TestSecretsManager(SecretsManagerContract):
    pass


class TestSqsCommandQueue(SqsCommandQueueContract):
    pass
