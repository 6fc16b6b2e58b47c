"""Credentials in Secrets Manager, under a prefix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.credentials import fields_of
from noetl_core.ports import NotFound

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.parameters.secrets import SecretsProvider

MAX_AGE_S = 60
"""How long a worker uses a credential that it has read. A template that reads it in a thousand iterations makes one request,
and a credential that was replaced is in use after a minute."""


class SecretsManager:
    """`Secrets` over AWS Secrets Manager; a credential is one JSON secret."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def get(self, name: str) -> Mapping[str, Any]:
        with _found(name):
            value = client("secretsmanager").get_secret_value(SecretId=self._prefix + name).get("SecretString", "")
        return fields_of(name, value)

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        text = json.dumps(value)
        try:
            with errors_of(f"credential {name}"):
                client("secretsmanager").create_secret(Name=self._prefix + name, SecretString=text)
        except ClientError as error:
            if code_of(error) != "ResourceExistsException":
                raise
            with errors_of(f"credential {name}"):
                client("secretsmanager").put_secret_value(SecretId=self._prefix + name, SecretString=text)

    def delete(self, name: str) -> None:
        try:
            with errors_of(f"credential {name}"):
                client("secretsmanager").delete_secret(SecretId=self._prefix + name, ForceDeleteWithoutRecovery=True)
        except ClientError as error:
            if code_of(error) != "ResourceNotFoundException":
                raise

    def names(self) -> Iterable[str]:
        with errors_of("credentials"):
            pages = (
                client("secretsmanager")
                .get_paginator("list_secrets")
                .paginate(Filters=[{"Key": "name", "Values": [self._prefix]}])
            )
            return sorted(s["Name"].removeprefix(self._prefix) for page in pages for s in page["SecretList"])


class RecentSecrets:
    """`ReadsSecrets` over AWS Secrets Manager for workers. Each credential is read at most once in `MAX_AGE_S`, by any number
    of threads. A credential that does not exist is asked for each time."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = Lock()

    def get(self, name: str) -> Mapping[str, Any]:
        from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError  # 40 ms, as below

        with self._lock, _found(name):
            try:
                value = self._provider.get(self._prefix + name, max_age=MAX_AGE_S)
            except GetParameterError as error:
                raise error.__context__ or error from None
        return fields_of(name, value if isinstance(value, str) else "")

    @cached_property
    def _provider(self) -> SecretsProvider:
        from aws_lambda_powertools.utilities.parameters.secrets import SecretsProvider  # 40 ms: only who reads credentials

        return SecretsProvider(boto3_client=client("secretsmanager"))


@contextmanager
def _found(name: str) -> Iterator[None]:
    try:
        with errors_of(f"credential {name}"):
            yield
    except ClientError as error:
        if code_of(error) == "ResourceNotFoundException":
            raise NotFound(f"there is no credential {name!r}") from error
        raise
