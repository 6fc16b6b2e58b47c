"""The clients of the adapters (`noetl_core.aws.clients`), and the translation of their errors to those of the ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from noetl_core.aws.clients import (
    TOO_LARGE,
    TRANSIENT,
    client,
    code_of,
    forget_clients,
    load_services,
    requests_checked_by,
    status_of,
)
from noetl_core.ports import TooLarge, Unavailable


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Translate errors of the service to those of the ports: `Unavailable`, `TooLarge`; others pass through."""
    try:
        yield
    except ClientError as error:
        code = code_of(error)
        if code in TRANSIENT or status_of(error) >= 500:
            raise Unavailable(f"{what}: {code}") from error
        if code in TOO_LARGE or (code == "ValidationException" and "size has exceeded" in str(error)):
            raise TooLarge(f"{what}: {code}") from error
        raise
    except ParamValidationError:
        raise  # a defect of ours, which no retry repairs
    except BotoCoreError as error:
        raise Unavailable(f"{what}: {error}") from error


__all__ = ["client", "code_of", "errors_of", "forget_clients", "load_services", "requests_checked_by"]
