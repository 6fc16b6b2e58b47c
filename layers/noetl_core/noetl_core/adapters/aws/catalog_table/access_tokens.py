"""Access tokens in the catalog table (its layout: `catalog`)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.aws.table import Item, Table
from noetl_core.ports import StoredToken
from noetl_core.values.instants import SECOND


class DynamoTokenCache(Table):
    """`TokenCache` on the catalog table: one or two write units per access. A worker accesses a token once until it expires."""

    def read(self, key: str, now: int) -> StoredToken | None:
        item = self._update(
            key,
            "ADD accesses :one SET accessed_at = :now",
            "attribute_exists(version) AND expires_at > :seconds",
            {":one": 1, ":now": now, ":seconds": now // SECOND},
        )
        if item is None:
            return None
        until, expires_at, accesses = (int(item[name]["N"]) for name in ("until", "expires_at", "accesses"))
        return StoredToken(item["sealed"]["S"], until, expires_at, item["version"]["S"], accesses)

    def begin_renewal(self, key: str, seen: str | None, now: int, until: int) -> bool:
        free = "(attribute_not_exists(renewed_until) OR renewed_until <= :now)"
        values: dict[str, int | str] = {":until": until, ":now": now}
        if seen is not None:
            condition = f"version = :seen AND {free}"
            values[":seen"] = seen
            update = "SET renewed_until = :until"
        else:
            gone = "(attribute_not_exists(version) OR expires_at <= :seconds)"
            condition = f"{gone} AND {free}"
            values |= {":forgotten": until // SECOND + 1, ":seconds": now // SECOND}
            update = "SET renewed_until = :until, expires_at = :forgotten REMOVE version, sealed"
        return self._update(key, update, condition, values) is not None

    def end_renewal(self, key: str, seen: str | None) -> None:
        self._update(key, "REMOVE renewed_until", *_same(seen))

    def write(self, key: str, token: StoredToken, seen: str | None) -> bool:
        condition, values = _same(seen)
        update = "SET version = :version, sealed = :sealed, #until = :until, expires_at = :expires_at, accesses = :none"
        values |= {
            ":version": uuid4().hex,
            ":sealed": token.sealed,
            ":until": token.until,
            ":expires_at": token.expires_at,
            ":none": 0,
        }
        return self._update(key, f"{update} REMOVE renewed_until", condition, values, {"#until": "until"}) is not None

    def _update(
        self, key: str, update: str, condition: str, values: dict[str, int | str], names: dict[str, str] | None = None
    ) -> Item | None:
        """Update the item of a token and return it; None if the condition does not hold."""
        request: dict[str, Any] = {"ExpressionAttributeNames": names} if names else {}
        if values:
            request["ExpressionAttributeValues"] = {
                name: {"S": value} if isinstance(value, str) else {"N": str(value)} for name, value in values.items()
            }
        try:
            with errors_of("catalog write"):
                answer: Item = client("dynamodb").update_item(
                    TableName=self.table,
                    Key={"pk": {"S": f"token#{key}"}, "sk": {"S": "token"}},
                    UpdateExpression=update,
                    ConditionExpression=condition,
                    ReturnValues="ALL_NEW",
                    **request,
                )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return None
        item: Item = answer["Attributes"]
        return item


def _same(seen: str | None) -> tuple[str, dict[str, int | str]]:
    """Return the condition that the token is the one with version `seen`."""
    return ("attribute_not_exists(version)", {}) if seen is None else ("version = :seen", {":seen": seen})
