"""Credentials in Secrets Manager, under a prefix."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.clock import SystemClock
from noetl_core.adapters.credentials import fields_of
from noetl_core.ports import Clock, NotFound
from noetl_core.values.instants import SECOND

MAX_AGE_S = 60
"""Seconds for which a worker caches a credential. A template that reads it in a thousand iterations makes one request, and a
replaced credential takes effect within a minute."""

RECOVERY_DAYS: Final = 7
"""Days for which Secrets Manager keeps a deleted credential, unreadable: the minimum that it accepts."""

_DELETED: Final = "InvalidRequestException"
"""The error code for a request that a secret does not take while it waits for its deletion, or while it does not."""


class SecretsManager:
    """`Secrets` over AWS Secrets Manager; a credential is one JSON secret."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def get(self, name: str) -> Mapping[str, Any]:
        return fields_of(name, _text(self._prefix, name))

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        """Store a credential. One that waits for its deletion is restored first."""
        secret, text = self._prefix + name, json.dumps(value)
        secrets = client("secretsmanager")
        with errors_of(f"credential {name}"):
            if _passes(("ResourceExistsException", _DELETED), secrets.create_secret, Name=secret, SecretString=text):
                return
            _passes((_DELETED,), secrets.restore_secret, SecretId=secret)  # refused if it is not deleted
            secrets.put_secret_value(SecretId=secret, SecretString=text)

    def delete(self, name: str) -> None:
        with errors_of(f"credential {name}"):
            delete = client("secretsmanager").delete_secret
            secret = self._prefix + name
            _passes(("ResourceNotFoundException", _DELETED), delete, SecretId=secret, RecoveryWindowInDays=RECOVERY_DAYS)

    def names(self) -> Iterable[str]:
        with errors_of("credentials"):
            pages = (
                client("secretsmanager")
                .get_paginator("list_secrets")
                .paginate(Filters=[{"Key": "name", "Values": [self._prefix]}])
            )
            kept = (secret for page in pages for secret in page["SecretList"] if not secret.get("DeletedDate"))
            return sorted(secret["Name"].removeprefix(self._prefix) for secret in kept)


class RecentSecrets:
    """`ReadsSecrets` over AWS Secrets Manager for workers. Each credential is read at most once in `MAX_AGE_S`, by any number of
    threads. A missing credential is requested each time.

    The age is measured by the machine's clock, which also advances while a process is suspended or stored in a snapshot.
    """

    def __init__(self, prefix: str, clock: Clock | None = None) -> None:
        self._prefix, self._clock = prefix, clock or SystemClock()
        self._lock = Lock()
        self._read: dict[str, tuple[int, str]] = {}
        """Name -> when the credential was read, and its value."""

    def get(self, name: str) -> Mapping[str, Any]:
        with self._lock:
            read_at, text = self._read.get(name, (0, ""))
            now = self._clock.now()
            if not 0 <= now - read_at < MAX_AGE_S * SECOND:
                text = _text(self._prefix, name)
                self._read[name] = (now, text)
        return fields_of(name, text)


def _text(prefix: str, name: str) -> str:
    """Return the JSON of a credential. Raises `NotFound`."""
    with _found(name):
        value: str = client("secretsmanager").get_secret_value(SecretId=prefix + name).get("SecretString", "")
    return value


@contextmanager
def _found(name: str) -> Iterator[None]:
    try:
        with errors_of(f"credential {name}"):
            yield
    except ClientError as error:
        if code_of(error) in ("ResourceNotFoundException", _DELETED):
            deleted = " (it is deleted, and can be restored for seven days)" if code_of(error) == _DELETED else ""
            raise NotFound(
                f"there is no credential {name!r} in this stack{deleted}: noetl credentials put {name} --data @FILE"
                " --paths PATTERN --on stack"
            ) from error
        raise


def _passes(refusals: Collection[str], request: Callable[..., Any], **parameters: str | int) -> bool:
    """Return whether AWS took a request; False for an error with one of the codes."""
    try:
        request(**parameters)
    except ClientError as error:
        if code_of(error) not in refusals:
            raise
        return False
    return True
