"""botocore clients, one per service and process, of one session. They use `AWS_ENDPOINT_URL`, as all of botocore does."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from threading import Lock
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from botocore.session import Session

from noetl_core import __version__
from noetl_core.ports import TooLarge, Unavailable

for _library in ("botocore", "s3transfer", "urllib3"):
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
    """Return the client of `service`."""
    with _making:  # making clients is not thread-safe, using them is
        return _client(service)


@lru_cache(maxsize=16)
def _client(service: str) -> Any:
    return _session().create_client(service, config=_CONFIGS.get(service, _PATIENT))


@lru_cache(maxsize=1)
def _session() -> Session:
    """Return the session of all clients: it finds the credentials once."""
    session = Session()
    session.register_component("data_loader", _loader())
    return session


@cache
def _loader() -> Any:
    """Return what reads the descriptions of services, and keeps each that it has read."""
    return Session().get_component("data_loader")


def forget_clients() -> None:
    """Create new clients from now on, for another endpoint or other credentials in the environment."""
    with _making:
        _client.cache_clear()
        _session.cache_clear()


def load_services(services: Iterable[str]) -> None:
    """Read the descriptions of services, which takes most of the time that a first client takes. No client stays, no credentials
    are looked for, and nothing is connected."""
    with _making:
        session = Session()
        session.register_component("data_loader", _loader())
        session.set_credentials("none", "none")
        for service in services:
            session.create_client(service, region_name="us-east-1")


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
