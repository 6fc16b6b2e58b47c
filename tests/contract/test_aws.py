"""The contracts over the AWS adapters against moto. It is no oracle (see the same suites in tests/e2e)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.contract.aws import (
    DynamoEventStoreContract,
    DynamoExecutionIndexContract,
    DynamoGatesContract,
    DynamoPlaybookCatalogContract,
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


class TestDynamoEventStore(DynamoEventStoreContract):
    pass


class TestDynamoPlaybookCatalog(DynamoPlaybookCatalogContract):
    pass


class TestDynamoExecutionIndex(DynamoExecutionIndexContract):
    pass


class TestDynamoGates(DynamoGatesContract):
    pass


class TestS3ResultStore(S3ResultStoreContract):
    pass


class TestSecretsManager(SecretsManagerContract):
    pass


class TestKmsSealer(KmsSealerContract):
    pass


class TestSqsCommandQueue(SqsCommandQueueContract):
    pass
