"""boto3 clients, one per service and process. They use `AWS_ENDPOINT_URL`, as all of boto3 does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from noetl_core import __version__
from noetl_core.ports import TooLarge, Unavailable

for _library in ("boto3", "botocore", "s3transfer", "urllib3"):
    logging.getLogger(_library).setLevel(logging.WARNING)  # below it they write down URLs, requests and answers: secrets too

_PATIENT = Config(
    retries={"mode": "standard", "total_max_attempts": 5},
    connect_timeout=3,
    read_timeout=30,
    max_pool_connections=32,
    user_agent=f"noetl/{__version__}",  # else botocore writes down its whole environment anew for every request
)
_CONFIGS = {
    "s3": _PATIENT.merge(Config(s3={"addressing_style": "path"})),
    "dynamodb": _PATIENT.merge(Config(read_timeout=8)),
}
"""DynamoDB answers in milliseconds: waiting for a lost packet must take less time than a lease can spare."""

TRANSIENT = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "Throttling",
        "RequestLimitExceeded",
        "LimitExceededException",
        "InternalServerError",
        "InternalError",
        "ServiceUnavailable",
        "SlowDown",
        "RequestTimeout",
        "TransactionConflictException",
        "OverLimit",
    }
)
TOO_LARGE = frozenset(
    {
        "EntityTooLarge",
        "InvalidMessageContents",
        "BatchRequestTooLong",
        "ItemCollectionSizeLimitExceededException",
    }
)


_making = Lock()


def client(service: str) -> Any:
    """Return the low-level client of `service`; it imports much faster than boto3's resources."""
    with _making:  # making clients is not thread-safe, using them is
        return _client(service)


@lru_cache(maxsize=16)
def _client(service: str) -> Any:
    return boto3.client(service, config=_CONFIGS.get(service, _PATIENT))  # type: ignore[call-overload]


def forget_clients() -> None:
    """Create new clients from now on, for another endpoint or other credentials in the environment."""
    with _making:
        _client.cache_clear()


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Translate errors of the service to those of the ports: `Unavailable`, `TooLarge`; others pass through."""
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in TRANSIENT or status >= 500:
            raise Unavailable(f"{what}: {code}") from error
        if code in TOO_LARGE or (code == "ValidationException" and "size has exceeded" in str(error)):
            raise TooLarge(f"{what}: {code}") from error
        raise
    except ParamValidationError:
        raise  # a mistake of ours, which no retry heals
    except BotoCoreError as error:
        raise Unavailable(f"{what}: {error}") from error


def code_of(error: ClientError) -> str:
    """Return the error code of the service."""
    return str(error.response.get("Error", {}).get("Code", ""))
