"""Builds the requests to DynamoDB that claim items, renew claims and settle items.

Every write has a condition. The condition of a claim repeats the complete query for the item itself, because an index may lag and
show items that are already done or claimed.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from noetl_core.tools.aws.attributes import written
from noetl_core.tools.base import BadInput
from noetl_core.values.frozen import frozen

Keys = Sequence[Sequence[str]]
"""The attributes of a table's key: name and type of each."""

OURS: Final = "noetl_"
"""The prefix of placeholders that authors may not use."""
FREE: Final = "(attribute_not_exists(#noetl_until) OR attribute_type(#noetl_until, :noetl_null))"
HELD: Final = "(#noetl_by = :noetl_claim AND NOT " + FREE + ")"
LAPSED: Final = "#noetl_until <= :noetl_now"
_WORD: Final = re.compile(r"#?[A-Za-z_]\w*")


@frozen
class Schema:
    """The keys of a table, and of the index that is read. `eventual`: the index has no consistent reads."""

    keys: Keys
    index_keys: Sequence[str]
    eventual: bool


def schema_of(table: Mapping[str, Any], index: str | None, claim: Sequence[str]) -> Schema:
    """Read the answer of DescribeTable. `claim` are the attributes of claims. Raises `BadInput`."""
    types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    keys = [[each["AttributeName"], types[each["AttributeName"]]] for each in table["KeySchema"]]
    if index is None:
        return Schema(keys, (), False)
    local, everywhere = table.get("LocalSecondaryIndexes") or (), table.get("GlobalSecondaryIndexes") or ()
    found = {each["IndexName"]: each for each in (*local, *everywhere)}
    if index not in found:
        raise BadInput(f"table {table['TableName']} has no index {index} (it has: {', '.join(sorted(found)) or 'none'})")
    projection = found[index]["Projection"]
    if projection["ProjectionType"] != "ALL":
        for name in claim:
            if name not in projection.get("NonKeyAttributes", ()):
                raise BadInput(
                    f"index {index} does not project {name}, so a query cannot see claims: project it, or all attributes"
                )
    index_keys = [each["AttributeName"] for each in found[index]["KeySchema"]]
    return Schema(keys, index_keys, index not in {each["IndexName"] for each in local})


def check(inputs: Mapping[str, Any], schema: Schema, names: Mapping[str, str]) -> None:
    """Raise `BadInput` if claims or settlements could not be written, or would be ineffective."""
    table_keys = {name for name, _ in schema.keys}
    for what in ("set", "done", "failed"):
        changed = inputs.get(what)
        for name in changed if isinstance(changed, Mapping) else ():
            if name in table_keys:
                raise BadInput(f"`cursor.{what}` cannot change {name}: it belongs to the key of the table")
            if name in (inputs["by"], inputs["until"]):
                raise BadInput(f"`cursor.{what}` cannot change {name}: the cursor keeps the claim in it")
            if what == "set" and name in schema.index_keys:
                raise BadInput(f"`cursor.set` cannot change {name}: the index would no longer find items whose worker died")
    for name in (inputs["by"], inputs["until"]):
        if name in table_keys or name in schema.index_keys:
            raise BadInput(f"{name} is for claims: it cannot belong to a key")
    done = inputs["done"]
    if isinstance(done, Mapping):
        query_names = {
            names.get(word, word) for word in _WORD.findall(f"{inputs.get('where') or ''} {inputs.get('filter') or ''}")
        }
        leaves = any(name in query_names or (value is None and name in schema.index_keys) for name, value in done.items())
        if not leaves:
            raise BadInput(
                "`cursor.done` changes no attribute in `where` or `filter`, so items that are done would be claimed again:"
                " change one of these, remove a key attribute of the index (null), or write `done: delete`"
            )


class Requests:
    """Requests for items of one table. `bound` has the names and values that the author's expressions use."""

    def __init__(self, inputs: Mapping[str, Any], bound: Mapping[str, Any], now: float) -> None:
        self._inputs, self._now = inputs, now
        self._names: dict[str, str] = dict(bound.get("ExpressionAttributeNames", {}))
        self._values: dict[str, Any] = dict(bound.get("ExpressionAttributeValues", {}))
        for name in (*self._names, *self._values):
            if name[1:].startswith(OURS):
                raise BadInput(f"{name} is a name of the cursor's own: choose one that does not begin with {OURS}")

    def query(self, schema: Schema) -> dict[str, Any]:
        """Return the request for claimable items, and for those that this claim already has."""
        inputs = self._inputs
        request = {"TableName": inputs["table"], "FilterExpression": self._claimable(), "ConsistentRead": not schema.eventual}
        request |= {"IndexName": inputs["index"]} if inputs.get("index") else {}
        request |= {"KeyConditionExpression": inputs["where"]} if inputs.get("where") else {}
        projection = {f"#noetl_k{n}": name for n, (name, _) in enumerate(schema.keys)}
        request["ProjectionExpression"] = ", ".join([*projection, "#noetl_by"])
        return {**request, **self._bound({**self._claim_names(), **projection}, self._claim_values())}

    def take(self, key: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
        """Return the request that claims an item, if it still matches the query."""
        inputs = self._inputs
        exists = {f"#noetl_e{n}": name for n, name in enumerate([schema.keys[0][0], *schema.index_keys])}
        still = [*(f"attribute_exists({name})" for name in exists), *([grouped(inputs["where"])] if inputs.get("where") else ())]
        changes = {**(inputs.get("set") or {}), inputs["by"]: inputs["claim"], inputs["until"]: self._until()}
        update, names, values = _changed(changes)
        return {
            "TableName": inputs["table"],
            "Key": key,
            "UpdateExpression": update,
            "ConditionExpression": " AND ".join([*still, f"({self._claimable()})"]),
            "ReturnValues": "ALL_NEW",
            **self._bound({**self._claim_names(), **exists, **names}, {**self._claim_values(), **values}),
        }

    def renew(self, key: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request that renews a claim. It also claims an item that failed in this run and was released, unless others
        have claimed it, because a redrive runs it again."""
        inputs = self._inputs
        update, names, values = _changed({inputs["by"]: inputs["claim"], inputs["until"]: self._until()})
        return {
            "TableName": inputs["table"],
            "Key": key,
            "UpdateExpression": update,
            "ConditionExpression": "#noetl_by IN (:noetl_claim, :noetl_failed)",
            **_with(
                {"#noetl_by": inputs["by"], **names}, {**self._whose(), ":noetl_failed": {"S": inputs["failed_id"]}, **values}
            ),
        }

    def settle(self, what: str, key: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request that settles an item; without an UpdateExpression it deletes."""
        inputs = self._inputs
        request = {"TableName": inputs["table"], "Key": key, "ConditionExpression": HELD}
        names = {"#noetl_by": inputs["by"], "#noetl_until": inputs["until"]}
        values = {**self._whose(), ":noetl_null": {"S": "NULL"}}
        changes = None if what == "released" else inputs.get(what)
        if changes == "delete":
            return {**request, **_with(names, values)}
        mark = {inputs["by"]: inputs["failed_id"]} if what == "failed" else {}
        # Released: anybody may claim it at once, regardless of clocks and of the changes by `set`.
        update, more_names, more = _changed(
            {**mark, **({inputs["until"]: 0} if changes is None else {**changes, inputs["until"]: None})}
        )
        return {**request, "UpdateExpression": update, **_with({**names, **more_names}, {**values, **more})}

    def _claimable(self) -> str:
        term = f" AND {grouped(self._inputs['filter'])}" if self._inputs.get("filter") else ""
        # With `set`, an item whose worker died may be one that `filter` no longer wants.
        free = f"(({FREE}{term}) OR {LAPSED})" if self._inputs.get("set") and term else f"({FREE} OR {LAPSED}){term}"
        return f"{HELD} OR ((attribute_not_exists(#noetl_by) OR #noetl_by <> :noetl_failed) AND {free})"

    def _claim_names(self) -> dict[str, str]:
        return {"#noetl_by": self._inputs["by"], "#noetl_until": self._inputs["until"]}

    def _claim_values(self) -> dict[str, Any]:
        return {
            **self._whose(),
            ":noetl_failed": {"S": self._inputs["failed_id"]},
            ":noetl_now": {"N": str(math.floor(self._now))},
            ":noetl_null": {"S": "NULL"},
        }

    def _whose(self) -> dict[str, Any]:
        return {":noetl_claim": {"S": self._inputs["claim"]}}

    def _until(self) -> int:
        return math.ceil(self._now + float(self._inputs["lease_s"]))

    def _bound(self, names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
        return _with({**self._names, **names}, {**self._values, **values})


def _with(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {"ExpressionAttributeNames": dict(names), "ExpressionAttributeValues": dict(values)}


def _changed(changes: Mapping[str, Any]) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the update expression that writes attributes and removes null ones, with its names and values."""
    names = {f"#noetl_c{n}": name for n, name in enumerate(changes)}
    values = {f":noetl_c{n}": written(value, "`cursor`") for n, value in enumerate(changes.values()) if value is not None}
    assigned = ", ".join(f"{name} = :{name[1:]}" for name in names if f":{name[1:]}" in values)
    removed = ", ".join(name for name in names if f":{name[1:]}" not in values)
    return " ".join([*([f"SET {assigned}"] if assigned else ()), *([f"REMOVE {removed}"] if removed else ())]), names, values


def grouped(expression: str) -> str:
    """Return an expression in parentheses, unless it has them already, because DynamoDB refuses redundant ones."""
    text, depth = expression.strip(), 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return text if text[:1] == "(" and place == len(text) - 1 else f"({text})"
    return f"({text})"


def text_of(item: Mapping[str, Any], keys: Keys) -> str:
    """Return the key of an item as text: the attribute, or a JSON list of two."""
    parts = [b64encode(item[name][type_]).decode() if type_ == "B" else str(item[name][type_]) for name, type_ in keys]
    return parts[0] if len(parts) == 1 else json.dumps(parts, ensure_ascii=False)


def key_of(text: str, keys: Keys) -> dict[str, Any]:
    """Return the key of a text from `text_of`."""
    parts = [text] if len(keys) == 1 else json.loads(text)
    return {name: {type_: b64decode(part) if type_ == "B" else part} for (name, type_), part in zip(keys, parts, strict=True)}
