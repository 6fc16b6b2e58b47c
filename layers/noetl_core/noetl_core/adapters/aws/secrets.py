"""Credentials in Secrets Manager, under a prefix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.credentials import fields_of
from noetl_core.ports import NotFound


class SecretsManager:
    """`Secrets` over AWS Secrets Manager; a credential is one JSON secret."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def get(self, name: str) -> Mapping[str, Any]:
        try:
            with errors_of(f"credential {name}"):
                value = client("secretsmanager").get_secret_value(SecretId=self._prefix + name).get("SecretString", "")
        except ClientError as error:
            if code_of(error) == "ResourceNotFoundException":
                raise NotFound(f"there is no credential {name!r}") from error
            raise
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
