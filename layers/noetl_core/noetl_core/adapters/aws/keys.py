"""The signing key of callback tokens, from the secret that the stack generated."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from noetl_core.adapters.aws.clients import client, errors_of


def generated_key(secret: str) -> Callable[[], bytes]:
    """Return the value of Secrets Manager's `secret` (name or ARN), read once per process."""
    return cache(lambda: _read(secret))


def _read(secret: str) -> bytes:
    with errors_of("the key of callback tokens"):
        value: str = client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"]
    return value.encode()
