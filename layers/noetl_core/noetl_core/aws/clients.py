"""Creates botocore clients of one session per process, for the engine's adapters and for tools.

They use `AWS_ENDPOINT_URL`, as all of botocore does, and the credentials that botocore finds: a function's role, or the caller's
own profile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from threading import Lock
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session

from noetl_core import __version__

for _library in ("botocore", "s3transfer", "urllib3"):
    logging.getLogger(_library).setLevel(logging.WARNING)  # lower levels log URLs, requests and answers: secrets too

CONNECTIONS: Final = 32
"""Idle connections that a client keeps."""
PATIENT: Final = Config(
    retries={"mode": "standard", "total_max_attempts": 5},
    connect_timeout=3,
    read_timeout=30,
    max_pool_connections=CONNECTIONS,
    user_agent=f"noetl/{__version__}",  # otherwise botocore writes its whole environment into every request
)
CONFIGS: Final = {
    "s3": PATIENT.merge(Config(s3={"addressing_style": "path"}, signature_version="s3v4")),
    "dynamodb": PATIENT.merge(Config(read_timeout=8)),
}
"""Configurations by service.

DynamoDB answers in milliseconds: waiting for a lost packet must take less time than a lease can spare. URLs that S3 presigns use
the same signature version as requests: most Regions accept no older one.
"""

TRANSIENT: Final = frozenset(
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
TOO_LARGE: Final = frozenset(
    {
        "EntityTooLarge",
        "InvalidMessageContents",
        "BatchRequestTooLong",
        "ItemCollectionSizeLimitExceededException",
    }
)

_making = Lock()
_check: ContextVar[Callable[[], None] | None] = ContextVar("noetl_requests_until", default=None)


@contextmanager
def requests_checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` before each request that this thread sends in the block, and before each retry; an error that it raises ends
    the request. botocore has no deadline: a request in progress ends by the limits of `PATIENT`."""
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def _check_time(**_: Any) -> None:
    check = _check.get()
    if check is not None:
        check()


def client(service: str, region: str | None = None, answer_s: int | None = None) -> Any:
    """Return the client of `service`: there is one for each combination of arguments.

    With `answer_s`, it waits that many seconds for an answer and sends the request once, for requests that must not be repeated
    (None: as in `PATIENT`).
    """
    with _making:  # creating clients is not thread-safe, using them is
        return _client(service, region, answer_s)


@lru_cache(maxsize=32)
def _client(service: str, region: str | None, answer_s: int | None) -> Any:
    config = CONFIGS.get(service, PATIENT)
    if answer_s is not None:
        config = config.merge(Config(read_timeout=answer_s, retries={"mode": "standard", "total_max_attempts": 1}))
    made = _session().create_client(service, region_name=region, config=config)
    made.meta.events.register("before-send", _check_time)
    return made


@lru_cache(maxsize=1)
def _session() -> Session:
    """Return the session of all clients: it finds the credentials once."""
    session = Session()
    session.register_component("data_loader", _loader())
    return session


@cache
def _loader() -> Any:
    """Return the loader of service descriptions, which keeps each that it has read."""
    return Session().get_component("data_loader")


def session() -> Session:
    """Return the session, for code that signs requests itself: its credentials and its Region."""
    with _making:
        return _session()


def forget_clients() -> None:
    """Create new clients from now on, for another endpoint or other credentials in the environment."""
    with _making:
        _client.cache_clear()
        _session.cache_clear()


def load_services(services: Iterable[str]) -> None:
    """Read the descriptions of services, which takes most of the time of creating a first client.

    No client stays, no credentials are searched for, and no connection is opened.
    """
    with _making:
        loading = Session()
        loading.register_component("data_loader", _loader())
        loading.set_credentials("none", "none")
        for service in services:
            loading.create_client(service, region_name="us-east-1")


def code_of(error: ClientError) -> str:
    """Return the error code of the service."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    """Return the HTTP status of the answer; 0 if it is not known."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
