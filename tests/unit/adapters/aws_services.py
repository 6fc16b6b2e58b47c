"""Services of AWS in this process as fixtures, and what they are asked, for the modules that test the AWS adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.events import DynamoEventStore
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.testing.contracts.clocks import FakeClock
from tests.aws_calls import through_botocore
from tests.contract.aws import environment, make_bucket, make_table
from tests.fast_moto import mock_aws


@pytest.fixture(scope="module", autouse=True)
def aws() -> Iterator[None]:
    with mock_aws(), environment():
        yield


@pytest.fixture
def results() -> S3ResultStore:
    return S3ResultStore(make_bucket())


@pytest.fixture
def table() -> str:
    return make_table("EventsTable")


@pytest.fixture
def store(table: str, results: S3ResultStore) -> DynamoEventStore:
    return DynamoEventStore(table, results, FakeClock())


def items(table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client("dynamodb").scan(TableName=table)["Items"]
    return found


@contextmanager
def watching(service: str, hook: str, handler: Any) -> Iterator[None]:
    """A botocore event handler for a while."""
    events = client(service).meta.events
    events.register(hook, handler)
    try:
        with through_botocore():
            yield
    finally:
        events.unregister(hook, handler)


@contextmanager
def requests(service: str) -> Iterator[list[str]]:
    """The operations that are asked for."""
    seen: list[str] = []

    def note(model: Any, **_: Any) -> None:
        seen.append(model.name)

    with watching(service, f"before-call.{service}", note):
        yield seen


def refuse(code: str, status: int = 400) -> Any:
    """A handler that answers an operation before it is sent."""

    class Answer:
        status_code = status

    def answer(**_: Any) -> Any:
        return Answer(), {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}

    return answer
