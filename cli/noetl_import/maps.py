"""Translates the collection of a Map state: its items, its reader, its batches, its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_import import intrinsics, jsonata
from noetl_import.findings import Unmapped
from noetl_import.names import Names
from noetl_import.services import listed_object, objects
from noetl_import.values import FILTERED, Doc, Expr, Obj, View, operand

INLINE_AT_ONCE: Final = 40
"""Iterations that an inline Map runs at the same time if it has no limit."""
DISTRIBUTED_AT_ONCE: Final = 1000
"""Iterations that a distributed Map runs at the same time if it has no limit; AWS allows 10,000."""
FORMATS: Final = {"CSV": "csv", "JSON": "json", "JSONL": "jsonl"}
ITEM: Final = Expr("iter.item")


def processor_of(state: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = state.get("ItemProcessor") or state["Iterator"]
    return found


def items_of(state: Mapping[str, Any], names: Names, language: str, read: Doc) -> tuple[dict[str, Any], Doc]:
    """Return the loop of a Map state, and the document of one item. `read` is the result of the task of its reader."""
    items, element = _read_items(state, read, names) if "ItemReader" in state else _items_of(state, names, language)
    loop: dict[str, Any] = {"in": items.yaml(), "iterator": "item"}
    if "ItemBatcher" in state:
        loop["in"], element = _batched(state["ItemBatcher"], items, names, language)
    distributed = processor_of(state).get("ProcessorConfig", {}).get("Mode") == "DISTRIBUTED"
    loop["spec"] = _limits(state, names, language, distributed)
    if "ResultWriter" in state:
        names.notes.attention(
            "the results stay in the execution, and are not written to S3", "add a step with kind s3, action put", "/ResultWriter"
        )
    if "Label" in state:
        names.notes.attention("the label of the Map has no effect", "leave it out", "/Label")
    return loop, element


def _items_of(state: Mapping[str, Any], names: Names, language: str) -> tuple[Doc, Doc]:
    if language == "JSONata":
        items = jsonata.template(state["Items"], names) if "Items" in state else names.doc
    else:
        items = names.path(state.get("ItemsPath", "$"))
    if items == Expr("workload"):
        raise Unmapped(
            "the input of a playbook is an object, not a list", "pass the list as a member, such as $.items", "/ItemsPath"
        )
    if isinstance(items, View) and items.kind == "objects":
        return items.inner, listed_object(ITEM)
    if isinstance(items, View):
        return items.inner, View(ITEM, items.kind, lambda key: _part(items, key), items.note)
    return items, ITEM


def _part(items: View, key: str | int) -> Doc:
    """Return a part of the current element of a list of typed values."""
    first = items.read(0)
    part = first.item(key) if isinstance(key, int) else first.get(key)
    return part.renamed(f"{items.inner.text()}[0]", "iter.item")


def reader_task(state: Mapping[str, Any], names: Names, language: str) -> dict[str, Any]:
    """Return the task that reads the items of a distributed Map from S3."""
    reader = state["ItemReader"]
    template = jsonata.template if language == "JSONata" else intrinsics.template
    place = template(reader.get("Arguments") or reader.get("Parameters") or {}, names)
    config, action = reader.get("ReaderConfig", {}), reader["Resource"].rpartition(":")[2]
    if action == "listObjectsV2":
        prefix = {"prefix": place.get("Prefix").yaml()} if isinstance(place, Obj) and "Prefix" in place.members else {}
        return {"kind": "s3", "action": "list", "bucket": place.get("Bucket").yaml(), **prefix}
    format_ = FORMATS.get(config.get("InputType", "JSON"))
    if action != "getObject" or format_ is None or config.get("CSVHeaderLocation", "FIRST_ROW") != "FIRST_ROW":
        raise Unmapped(
            "the reader of the Map has a form that does not map",
            "read the file in a task, for example of kind duckdb",
            "/ItemReader",
        )
    return {"kind": "s3", "bucket": place.get("Bucket").yaml(), "key": place.get("Key").yaml(), "format": format_}


def _read_items(state: Mapping[str, Any], read: Doc, names: Names) -> tuple[Doc, Doc]:
    reader = state["ItemReader"]
    listed = reader["Resource"].endswith("listObjectsV2")
    items = read.get("objects") if listed else read.get("data")
    most = reader.get("ReaderConfig", {}).get("MaxItems")
    if isinstance(most, int) and most:
        items = items.item(f":{most}")
    if not listed:
        return items, ITEM
    return objects(items, names.notes) if "ItemBatcher" in state else items, listed_object(ITEM)


def _batched(batcher: Mapping[str, Any], items: Doc, names: Names, language: str) -> tuple[str, Doc]:
    size = batcher.get("MaxItemsPerBatch")
    if not isinstance(size, int) or "MaxInputBytesPerBatch" in batcher:
        raise Unmapped(
            "batches by size or of a computed number do not map",
            "set MaxItemsPerBatch to a number, without MaxInputBytesPerBatch",
            "/ItemBatcher",
        )
    template = jsonata.template if language == "JSONata" else intrinsics.template
    members: dict[str, Doc] = {"Items": ITEM}
    if "BatchInput" in batcher:
        members["BatchInput"] = template(batcher["BatchInput"], names)
    return Expr(f"{operand(items)} | batch({size}) | list", FILTERED).yaml(), Obj(members)


def _limits(state: Mapping[str, Any], names: Names, language: str, distributed: bool) -> dict[str, Any]:
    most = _number(state, "MaxConcurrency", names, language)
    if most == 1:
        spec: dict[str, Any] = {"mode": "sequential"}
    else:
        spec = {"mode": "parallel", "max_in_flight": most or (DISTRIBUTED_AT_ONCE if distributed else INLINE_AT_ONCE)}
    policy: dict[str, Any] = {"exec": "distributed"} if distributed and most != 1 else {}
    failure = {
        key: value
        for key, field in (("tolerated_count", "ToleratedFailureCount"), ("tolerated_percent", "ToleratedFailurePercentage"))
        if (value := _number(state, field, names, language)) is not None
    }
    if failure:
        names.notes.attention(
            "a failed item that is tolerated has the result null; AWS leaves it out",
            "check what reads the results",
            "/ResultPath",
        )
        policy["failure"] = failure
    return {**spec, "policy": policy} if policy else spec


def _number(state: Mapping[str, Any], key: str, names: Names, language: str) -> Any:
    if f"{key}Path" in state:
        return names.path(state[f"{key}Path"]).yaml()
    value = state.get(key)
    return jsonata.template(value, names).yaml() if isinstance(value, str) else value
