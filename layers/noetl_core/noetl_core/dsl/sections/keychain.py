"""`keychain`: the declared credentials, each by the fields of its kind (canonical step spec 2.1).

Every accepted spelling ends in `KeychainEntry.options` under its canonical name, which the resolver of credentials reads.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl_core.dsl.fields.keychain import CREDENTIAL, KEYCHAIN, SCOPES
from noetl_core.dsl.fields.types import Block, Duration, Values
from noetl_core.dsl.inputs import LATER
from noetl_core.dsl.model import KeychainEntry
from noetl_core.dsl.numbers import BadNumber, duration
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import scalars_below
from noetl_core.expr import FUNCTIONS, is_template

_ONE_BODY: Final = ("data", "json")


def read_keychain(r: Reader, node: Node | None) -> tuple[KeychainEntry, ...]:
    """Return the entries in order; an entry may read those above it."""
    out: dict[str, KeychainEntry] = {}
    declared: set[str] = set()
    for i, item in enumerate(r.sequence(node, "keychain")):
        entry = _entry(r, item, f"keychain entry {i}")
        name_node = item.get("name")
        _check_templates(r, item, declared)
        if name_node is not None and isinstance(name_node.value, str):
            declared.add(name_node.value)
        if entry is None:
            continue
        if entry.name in out:
            r.report("E103", item.value["name"], f'credential "{entry.name}" is declared twice', "remove one")
        out[entry.name] = entry
    return tuple(out.values())


def _entry(r: Reader, item: Node, what: str) -> KeychainEntry | None:
    kind_node = item.get("kind")
    block = KEYCHAIN.get(str(kind_node.value)) if kind_node is not None else None
    content = r.read(item, block or CREDENTIAL, what)
    entries = {k: v for k, v in content.nodes.items() if not k.startswith("x-")}
    if block is not KEYCHAIN["static"]:
        entries = _known(r, item, entries, block or CREDENTIAL, what)
    name, kind = content.get("name"), content.get("kind")
    for key in ("name", "kind"):
        if key not in entries and isinstance(item.value, dict):
            r.report("E111", item, f"{what} has no {key}")
    if name is None or kind is None:
        return None
    what = f'keychain entry "{name}"'
    _check_types(r, entries, block or CREDENTIAL, what)
    options = _canonical(r, item, {k: v for k, v in entries.items() if k not in ("name", "kind")}, block, what)
    if kind == "static":
        options = _values(r, item, options, what)
    elif kind == "oauth2":
        _scopes(r, item, options, what)
    if block is not None:
        _check_together(r, item, kind, options, what)
    return KeychainEntry(name, kind, options)


def _known(r: Reader, item: Node, entries: Mapping[str, Node], block: Block, what: str) -> dict[str, Node]:
    """Return the fields of the kind. A missing key could mean that another secret is read than intended."""
    out = {}
    for key, child in entries.items():
        if key in block.keys:
            out[key] = child
            continue
        near = difflib.get_close_matches(key, block.keys, 1, cutoff=0.8)
        if not near and not r.programs:  # a pinned playbook may be older than this check
            continue
        hint = f'did you mean "{near[0]}"?' if near else f"the kind has {', '.join(sorted(block.keys - {'name', 'kind'}))}"
        r.report("E110", (item, key), f'unknown key "{key}" in {what}', hint)
    return out


def _check_types(r: Reader, entries: Mapping[str, Node], block: Block, what: str) -> None:
    for key, child in entries.items():
        field = block.by_name.get(key)
        if field is None or is_template(child.value):
            continue
        if isinstance(field.type, Values) and not isinstance(child.value, dict):
            r.report("E112", child, f"{key} of {what} must be a mapping, not {r.word(child)}")
        elif isinstance(field.type, Duration):
            try:
                duration(child.value, field.type.allowed, f"{key} of {what}")
            except BadNumber as error:
                r.report("E124", child, str(error))


def _canonical(r: Reader, item: Node, entries: Mapping[str, Node], block: Block | None, what: str) -> dict[str, Any]:
    """Return the options by their canonical names."""
    out: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for key, child in entries.items():
        field = None if block is None else block.by_name.get(key)
        own = key if field is None else field.same_as or key
        if own in spelt:
            r.report("E114", (item, key), f"{what} has {spelt[own]} and {key}", f"keep {own}")
            continue
        spelt[own] = key
        out[own] = child.plain()
    return out


def _values(r: Reader, item: Node, options: dict[str, Any], what: str) -> dict[str, Any]:
    """Return the options of a static entry: all other keys are its values."""
    own = KEYCHAIN["static"].keys
    values = {k: v for k, v in options.items() if k not in own}
    data = options.get("data", {})
    if values and not isinstance(data, dict):
        r.report("E114", item, f"{what} has data and {next(iter(values))}", "write all values below data")
    elif values:
        data = {**data, **values}
    return {**{k: v for k, v in options.items() if k in own and k != "data"}, **({"data": data} if data else {})}


def _scopes(r: Reader, item: Node, options: dict[str, Any], what: str) -> None:
    """Treat a `scope` that does not name who shares the token as the permissions of the token."""
    scope = options.get("scope")
    if scope is None or scope in SCOPES:
        return
    if "scopes" in options:
        hint = "scopes lists the permissions of the token; scope is one of " + ", ".join(SCOPES)
        r.report("E114", (item, "scope"), f"{what} has scope and scopes", hint)
        return
    options["scopes"] = options.pop("scope")


def _check_together(r: Reader, item: Node, kind: str, options: Mapping[str, Any], what: str) -> None:
    if all(key in options for key in _ONE_BODY):
        r.report("E114", item, f"{what} has data and json", "keep one")
    if "token" in options and "token_url" in options:
        r.report("E114", item, f"{what} has token and token_url", "keep one: the token, or the URL that issues it")
    if "map" in options and "credential" in options:
        r.report("E114", item, f"{what} has map and the name of one secret", "keep map")
    if kind == "oauth2" and not {"token_url", "credential"} & options.keys() and {"client_id", "data", "json"} & options.keys():
        r.missing(item, "token_url", f"{what} has no token_url", "token_url: the address that gives the token")


def _check_templates(r: Reader, item: Node, declared: set[str]) -> None:
    """Report names without a value while credentials are resolved: in order, when a task first reads one."""
    for scalar, path in _reads(r, item):
        root = path[0]
        if root == "keychain" and len(path) > 1 and path[1] not in declared and _later(r, item, path[1]):
            message = f"keychain.{path[1]} is declared below: entries are resolved in order"
            r.report("E208", scalar, message, f"move {path[1]} up")
        elif root in LATER and root not in FUNCTIONS:
            message = f"{root} in the keychain: credentials are resolved before tasks run"
            r.report("E208", scalar, message, "the keychain may read only workload, execution_id, trigger and the entries above")


def _later(r: Reader, item: Node, name: str) -> bool:
    root = r.loaded.root
    entries = root.get("keychain") if root is not None else None
    name_nodes = [e.get("name") for e in entries.value] if entries is not None and isinstance(entries.value, list) else []
    return any(n is not None and n.value == name for n in name_nodes)


def _reads(r: Reader, item: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
    for scalar in scalars_below(item):
        yield from ((scalar, read.path) for read in r.reads.get(scalar.value, ()))
