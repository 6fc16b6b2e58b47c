"""Reading and writing one DynamoDB table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import code_of, errors_of
from noetl_core.aws import direct_requests

Item = Mapping[str, Any]

IS_FREE = "attribute_not_exists(pk)"


def query_pages(what: str, limit: int | None = None, **request: Any) -> Iterator[Item]:
    """The pages of a query, read on demand. `limit`: the maximum number of items over all pages."""
    left = limit
    while True:
        if left is not None:
            request["Limit"] = left
        with errors_of(what):
            page: Item = direct_requests.query(**request)
        yield page
        left = None if left is None else left - len(page["Items"])
        if "LastEvaluatedKey" not in page or left == 0:
            return
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


class Table:
    """One table: the base of its adapters."""

    def __init__(self, table: str) -> None:
        self.table = table

    def put(self, item: dict[str, Any], **condition: Any) -> bool:
        """Write an item; return False when the condition did not hold."""
        try:
            with errors_of("catalog write"):
                direct_requests.put_item(TableName=self.table, Item=item, **condition)
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def get_item(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        with errors_of("catalog read"):
            key = {"pk": {"S": pk}, "sk": {"S": sk}}
            found: Item | None = direct_requests.get_item(TableName=self.table, Key=key, ConsistentRead=consistent).get("Item")
        return found

    def query(self, limit: int | None = None, **request: Any) -> list[Item]:
        pages = query_pages("catalog read", limit, TableName=self.table, **request)
        return [item for page in pages for item in page["Items"]]
