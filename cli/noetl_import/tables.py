"""Translates DynamoDB: its typed values, `{"S": "x"}`, are plain data in a playbook."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from noetl_import.findings import Notes, Unmapped
from noetl_import.names import Computed
from noetl_import.values import Arr, Const, Doc, Expr, Obj, View, literal, opened, operand

Take = Callable[[str], Doc | None]
HIDDEN: Final = {"SdkHttpMetadata": Obj({"HttpStatusCode": Const(200)})}


PLAIN: Final = """def plain(value):
    ((kind, inner),) = value.items()
    if kind == "M":
        return {key: plain(each) for key, each in inner.items()}
    if kind == "L":
        return [plain(each) for each in inner]
    return json.loads(inner) if kind == "N" else None if kind == "NULL" else inner"""
"""Computes plain data of typed values that are not written out."""


def dynamodb(action: str, take: Take, notes: Notes, computed: Computed) -> tuple[str, dict[str, Any], Callable[[Doc], Doc]]:
    """Return kind, inputs and result of a task for an action of DynamoDB. Raises `Unmapped`."""
    if action not in ACTIONS:
        raise Unmapped(
            f"the action {action} of DynamoDB does not map", "use getItem, putItem, updateItem, deleteItem or query", "/Resource"
        )
    inputs: dict[str, Any] = {} if action == "getItem" else {"action": action.removesuffix("Item")}
    for name, key in ACTIONS[action].items():
        doc = take(key)
        if doc is not None:
            inputs[name] = TRANSLATED[name](doc, computed).yaml() if name in TRANSLATED else doc.yaml()
    if action == "getItem":
        projection = take("ProjectionExpression")
        if projection is not None:
            notes.attention(
                "a get reads the whole item, not only the attributes of the projection", "check what reads the whole result"
            )
    if action == "query":
        inputs["descending"] = bool((forward := take("ScanIndexForward")) and forward == Const(False))
    return "dynamodb", inputs, lambda ref: _result(action, ref, notes)


COMMON: Final = {
    "condition": "ConditionExpression", "names": "ExpressionAttributeNames", "values": "ExpressionAttributeValues",
}  # fmt: skip
ACTIONS: Final[dict[str, dict[str, str]]] = {
    "getItem": {"table": "TableName", "key": "Key", "consistent": "ConsistentRead"},
    "putItem": {"table": "TableName", "item": "Item", **COMMON},
    "updateItem": {"table": "TableName", "key": "Key", "update": "UpdateExpression", **COMMON},
    "deleteItem": {"table": "TableName", "key": "Key", **COMMON},
    "query": {
        "table": "TableName", "index": "IndexName", "where": "KeyConditionExpression", "filter": "FilterExpression",
        "names": "ExpressionAttributeNames", "values": "ExpressionAttributeValues", "limit": "Limit",
        "consistent": "ConsistentRead",
    },
}  # fmt: skip


def _result(action: str, ref: Doc, notes: Notes) -> Doc:
    match action:
        case "getItem":
            return Obj({"Item": _map(ref.get("item"), notes, f"{operand(ref)}.found")}, hidden=HIDDEN)
        case "query":
            items = ref.get("items")
            return Obj({"Items": _list(items, notes), "Count": ref.get("count")}, hidden=HIDDEN)
    return Obj({}, hidden={**HIDDEN, "Attributes": _map(ref.get("item" if action == "updateItem" else "old"), notes)})


# --- values of a request ------------------------------------------------------------------------------------------------


def plain_members(doc: Doc, computed: Computed) -> Doc:
    """Return a map of typed values as plain data."""
    doc = opened(doc)
    if isinstance(doc, View) and doc.kind == "map":
        return doc.inner
    if not isinstance(doc, Obj) or doc.base is not None:
        return _computed("M", doc, computed)
    return Obj({key: plain(each, computed) for key, each in doc.members.items()})


def plain(doc: Doc, computed: Computed) -> Doc:
    """Return a typed value as plain data. A value without a type is plain already."""
    doc = opened(doc)
    if isinstance(doc, View) and doc.kind == "value":
        return doc.inner
    if not isinstance(doc, Obj) or len(doc.members) != 1:
        if isinstance(doc, Const) or (isinstance(doc, Expr) and doc.type):
            return doc
        return computed.add(("plain", "plain({value})", ("json",)), {"value": doc}, PLAIN)
    ((type_, value),) = doc.members.items()
    match type_:
        case "N":
            return (
                Const(json.loads(str(value.value)))
                if isinstance(value, Const)
                else Expr(f"{operand(value)} | string | fromjson", 1)
            )
        case "M":
            return plain_members(value, computed)
        case "L":
            value = opened(value)
            if isinstance(value, Arr):
                return Arr(tuple(plain(each, computed) for each in value.elements))
            return _computed("L", value, computed)
        case "NULL":
            return Const(None)
        case "BOOL" if isinstance(value, Const) and isinstance(value.value, str):
            return Const(value.value == "true")
    return value


def _computed(type_: str, doc: Doc, computed: Computed) -> Doc:
    return computed.add(("plain", f'plain({{"{type_}": {{value}}}})', ("json",)), {"value": doc}, PLAIN)


def _prefixed(doc: Doc) -> Doc:
    """Return names or values of an expression without their `#` or `:`."""
    doc = opened(doc)
    if isinstance(doc, Obj) and doc.base is None:
        return Obj({key.lstrip("#:"): each for key, each in doc.members.items()})
    raise Unmapped("names or values of an expression are not written out", "write them out", "/Parameters")


TRANSLATED: Final[dict[str, Callable[[Doc, Computed], Doc]]] = {
    "key": plain_members,
    "item": plain_members,
    "names": lambda doc, _: _prefixed(doc),
    "values": lambda doc, computed: plain_members(_prefixed(doc), computed),
}


# --- values of an answer ------------------------------------------------------------------------------------------------


def _noted(notes: Notes) -> Callable[[], None]:
    return lambda: notes.attention(
        'an item of DynamoDB is plain data, without types such as {"S": ...}', "check what reads the item as a whole"
    )


def _map(item: Doc, notes: Notes, condition: str = "") -> Doc:
    return View(item, "map", lambda key: _value(item.get(str(key)), notes), _noted(notes), condition)


def _list(items: Doc, notes: Notes) -> Doc:
    return View(items, "list", lambda index: _map(items.item(index), notes), _noted(notes))


def _value(value: Doc, notes: Notes) -> Doc:
    def read(type_: str | int) -> Doc:
        match type_:
            case "N":
                return Expr(f"{operand(value)} | string", 1, "text")
            case "M":
                return _map(value, notes)
            case "L":
                return View(value, "list", lambda index: _value(value.item(index), notes), _noted(notes))
            case "S" | "BOOL" | "SS" | "NS" | "B" | "BS":
                return value
            case "NULL":
                return Expr(f"{operand(value)} is none", 2)
        raise Unmapped(f"{literal(str(type_))} is not a type of DynamoDB", "correct the path")

    return View(value, "value", read, _noted(notes))
