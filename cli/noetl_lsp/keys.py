"""The JSON Schema of a playbook, walked along a path: which keys and values a place takes, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from noetl_core.dsl.model import Path
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.schema import playbook_schema
from noetl_core.values.frozen import frozen
from noetl_lsp.outline import Tree

Schema = Mapping[str, Any]
DEEPEST: Final = 40
"""Levels of references and alternatives that are followed."""
FEW: Final = 2
"""Alternatives whose keys are offered together while it is not known which of them is meant."""
_STATES: Final = frozenset({"properties", "items", "type", "enum", "const"})
"""Words of a schema that say something themselves."""


@frozen
class Key:
    """A key or value that a place takes. `doc` is Markdown."""

    name: str
    doc: str
    link: str
    required: bool = False
    holds: str = ""
    """`object` or `array`, for a key whose value is nothing else."""


class Keys:
    """The keys of the language. `docs` is the address of the documentation, which ends with `/`."""

    def __init__(self, docs: str = "") -> None:
        self._root: Schema = playbook_schema(docs)

    def of_mapping(self, tree: Tree, path: Path) -> list[Key]:
        """Return the keys that the mapping at a path takes, in the order of the language."""
        node = tree.at(path)
        found: dict[str, Key] = {}
        for schema in self._at(tree, path):
            for flat in self._flat(schema, node):
                required = flat.get("required", ())
                for name, part in (flat.get("properties") or {}).items():
                    if isinstance(part, Mapping) and (name not in found or not found[name].doc):
                        found[name] = self._key(name, part, required=name in required)
        return list(found.values())

    def of_value(self, tree: Tree, path: Path) -> list[Key]:
        """Return the words that the value at a path may be."""
        found: dict[str, Key] = {}
        doc, link = self.about(tree, path)
        for schema in self._at(tree, path):
            for flat in self._flat(schema, None):
                words = [flat["const"]] if "const" in flat else flat.get("enum", ())
                words = [True, False] if not words and flat.get("type") == "boolean" else words
                for word in words:
                    name = str(word).lower() if isinstance(word, bool) else str(word)
                    found.setdefault(name, Key(name, doc, link))
        return list(found.values())

    def about(self, tree: Tree, path: Path) -> tuple[str, str]:
        """Return what the key at the end of a path means, and the address of its page; nothing for keys of the author."""
        if not path or not isinstance(path[-1], str):
            return "", ""
        node = tree.at(path[:-1])
        for schema in self._at(tree, path[:-1]):
            for flat in self._flat(schema, node):
                part = (flat.get("properties") or {}).get(path[-1])
                if isinstance(part, Mapping):
                    doc, link = _described(part)
                    if doc:
                        return doc, link
        return "", ""

    def _key(self, name: str, part: Schema, *, required: bool) -> Key:
        doc, link = _described(part)
        kinds = {str(flat.get("type", "object" if "properties" in flat else "")) for flat in self._flat(part, None)}
        return Key(name, doc, link, required, kinds.pop() if kinds in ({"object"}, {"array"}) else "")

    def _referred(self, reference: str) -> Schema:
        found: Any = self._root
        for part in reference.split("/")[1:]:
            found = found[part]
        return found  # type: ignore[no-any-return]  # a schema of schemas

    # --- along a path ---------------------------------------------------------------------------------------------------

    def _at(self, tree: Tree, path: Path) -> list[Schema]:
        """Return the schemas that the value at a path may have to fit."""
        schemas: list[Schema] = [self._root]
        node: Node | None = tree.root
        for part in path:
            below: dict[int, Schema] = {}
            for schema in schemas:
                below |= {id(found): found for found in self._below(schema, node, part)}
            schemas = list(below.values())
            value: Any = None if node is None else node.value
            try:
                node = value[part]
            except (KeyError, IndexError, TypeError):
                node = None
        return schemas

    def _below(self, schema: Schema, node: Node | None, part: str | int) -> Iterator[Schema]:
        named, others = [], []
        for flat in self._flat(schema, node):
            if isinstance(part, int):
                others.append(flat.get("items"))
                continue
            if part in (flat.get("properties") or {}):
                named.append(flat["properties"][part])
            elif not part.startswith("x-"):
                others.append(flat.get("additionalProperties"))
        yield from (found for found in named or others if isinstance(found, Mapping))

    def _flat(self, schema: Schema, node: Node | None, depth: int = 0) -> Iterator[Schema]:
        """Yield the parts of a schema that hold for a node, without references and alternatives."""
        if depth > DEEPEST:
            return
        if isinstance(reference := schema.get("$ref"), str):
            yield from self._flat(self._referred(reference), node, depth + 1)
        if _STATES & schema.keys() or isinstance(schema.get("additionalProperties"), Mapping):
            yield schema
        undecided: list[Schema] = []
        for part in (schema, *schema.get("allOf", ())):
            if "if" in part:
                decided = _fits(part["if"], node)
                undecided += [part["then"]] if decided is None and "then" in part else []
                branch = part.get("then" if decided else "else")
                if isinstance(branch, Mapping):
                    yield from self._flat(branch, node, depth + 1)
            elif part is not schema:
                yield from self._flat(part, node, depth + 1)
        if len(undecided) > FEW:
            yield self._common(tuple(each["$ref"] for each in undecided if "$ref" in each))
        else:
            for part in undecided:
                yield from self._flat(part, node, depth + 1)
        for alternatives in (schema.get("anyOf", ()), schema.get("oneOf", ())):
            open_ones = [part for part in alternatives if self._possible(part, node)]
            for part in open_ones or alternatives:
                yield from self._flat(part, node, depth + 1)

    @lru_cache(maxsize=16)  # noqa: B019 - one object per process
    def _common(self, references: tuple[str, ...]) -> Schema:
        """Return the properties that all of these definitions have: those of a task of any kind."""
        each = [self._referred(reference).get("properties", {}) for reference in references]
        if not each:
            return {}
        names = [name for name in each[0] if all(name in properties for properties in each)]
        return {"properties": {name: each[0][name] for name in names if name != "kind"}}

    def _possible(self, schema: Schema, node: Node | None) -> bool:
        """Return whether a node does not contradict an alternative by its keys."""
        if node is None or node.value is None or not isinstance(schema, Mapping):
            return True
        for _ in range(DEEPEST):
            if "$ref" not in schema:
                break
            schema = self._referred(schema["$ref"])
        if not isinstance(node.value, dict):
            return schema.get("type") in (None, "array" if isinstance(node.value, list) else schema.get("type"))
        if schema.get("type") not in (None, "object"):
            return False
        keys = [key for key in node.value if not key.startswith("x-")]
        known = schema.get("properties") or {}
        if any(key in node.value for key in _excluded(schema)):
            return False
        return schema.get("additionalProperties") is not False or all(key in known for key in keys)


def _excluded(schema: Schema) -> Iterable[str]:
    """Return the keys of which an alternative must have none: `not: {anyOf: [{required: [key]}]}`."""
    refused = schema.get("not", {}).get("anyOf", ()) if isinstance(schema.get("not"), Mapping) else ()
    return [key for part in refused for key in part.get("required", ())]


def _fits(condition: Schema, node: Node | None) -> bool | None:
    """Return whether a node fits the condition of an `if`; None if a key that it asks for is not there yet."""
    if node is None or not isinstance(node.value, dict):
        return None
    if any(key not in node.value for key in condition.get("required", ())):
        return None
    for key, part in condition.get("properties", {}).items():
        value = node.value[key].value if key in node.value else None
        if ("const" in part and value != part["const"]) or ("enum" in part and value not in part["enum"]):
            return False
    return True


def _described(part: Schema) -> tuple[str, str]:
    """Return a description without its last line, which is a link, and the link."""
    text, _, link = str(part.get("description", "")).rpartition("\n")
    return (text, link) if text else (link, "")
