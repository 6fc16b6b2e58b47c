"""A credential that is deleted on a stack can be had back for a week."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl_core.adapters.aws.clients import client
from noetl_core.adapters.aws.secrets import RecentSecrets, SecretsManager
from noetl_core.ports import NotFound
from tests.fast_moto import mock_aws


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[SecretsManager]:
    for name, value in {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        made = SecretsManager("stack/")
        made.put("api", {"data": {"token": "old"}})
        made.delete("api")
        yield made


def described() -> Any:
    return client("secretsmanager").describe_secret(SecretId="stack/api")


def test_it_waits_for_seven_days(secrets: SecretsManager) -> None:
    assert 6.9 < (described()["DeletedDate"] - described()["LastChangedDate"]).total_seconds() / 86_400 < 7.1
    assert list(secrets.names()) == []


def test_nobody_reads_it_meanwhile_and_the_worker_says_why(secrets: SecretsManager) -> None:
    for reader in (secrets, RecentSecrets("stack/")):
        with pytest.raises(NotFound, match="it is deleted"):
            reader.get("api")


def test_writing_it_again_restores_it_with_the_new_value(secrets: SecretsManager) -> None:
    before = described()["ARN"]
    secrets.delete("api")
    secrets.put("api", {"data": {"token": "new"}})
    assert dict(secrets.get("api")) == {"data": {"token": "new"}}
    assert (described()["ARN"], described().get("DeletedDate")) == (before, None)


def test_an_operator_restores_it_with_the_old_value(secrets: SecretsManager) -> None:
    client("secretsmanager").restore_secret(SecretId="stack/api")
    assert dict(secrets.get("api")) == {"data": {"token": "old"}}
