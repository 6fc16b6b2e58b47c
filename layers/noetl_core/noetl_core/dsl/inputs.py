"""`workload`: the inputs with their defaults, which may be templates, and `x-schema`, the schema of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.model import Path
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import FUNCTIONS, is_template
from noetl_core.values.json_schema import BadSchema, check_schema

SCHEMA_KEY: Final = "x-schema"
TRIGGER_KEYS: Final = frozenset({"s3"})
"""Workload keys that a start from outside adds."""
READABLE: Final = words("workload execution_id trigger")
LATER: Final = words("ctx iter args steps event outcome callback _prev _task _attempt _outcome")
"""Names that have a value only while the execution runs."""


def read_workload(r: Reader, node: Node | None) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    """Return the defaults, and the schema of the inputs if there is one."""
    entries = {} if node is None else r.mapping(node, "workload")
    schema = entries.get(SCHEMA_KEY)
    _check_templates(r, entries)
    return {k: v.plain() for k, v in entries.items() if k != SCHEMA_KEY}, None if schema is None else _schema(r, schema)


def _schema(r: Reader, node: Node) -> Mapping[str, Any] | None:
    schema = node.plain()
    try:
        check_schema(schema, SCHEMA_KEY)
    except BadSchema as wrong:
        r.report("E128", node.at(wrong.path), str(wrong))
        return None
    if schema.get("type", "object") != "object":
        r.report("E128", node, f"{SCHEMA_KEY}: the type of the workload must be object, not {schema['type']}", "leave type out")
        return None
    return dict(schema)


def default_scalars(root: Node) -> Iterator[Node]:
    """Yield the templates among the defaults, at any depth."""
    workload = root.get("workload")
    if workload is not None and isinstance(workload.value, dict):
        for key, child in workload.value.items():
            if key != SCHEMA_KEY:
                yield from (scalar for scalar in child.scalars() if is_template(scalar.value))


# --- reads of templates in defaults -------------------------------------------------------------------------------------


def _check_templates(r: Reader, entries: Mapping[str, Node]) -> None:
    leaves = {
        node.path[1:]: node for key, n in entries.items() if key != SCHEMA_KEY for node in n.scalars() if is_template(node.value)
    }
    for node in leaves.values():
        for read in r.reads.get(node.value, ()):
            _check_name(r, node, read.path, entries)
    _circles(r, leaves, {path: _needs(r, node, leaves, entries) for path, node in leaves.items()})


def _check_name(r: Reader, node: Node, path: tuple[str, ...], declared: Mapping[str, Node]) -> None:
    root = path[0]
    if root == "keychain":
        message = f"{'.'.join(path)} in workload: the control plane holds no secrets"
        r.report("E205", node, message, "read the credential in a task")
    elif root in LATER and root not in declared and root not in FUNCTIONS:
        message = f"{root} in workload: defaults are rendered once, before the execution begins"
        r.report("E208", node, message, "defaults may read only workload, execution_id and trigger")


def _needs(r: Reader, node: Node, leaves: Mapping[Path, Node], declared: Mapping[str, Node]) -> list[Path]:
    """Return the templates that one of them reads: at the place it names, below it, or above it."""
    found: list[Path] = []
    for read in r.reads.get(node.value, ()):
        place = read.path[1:] if read.path[0] == "workload" else read.path
        if place and place[0] in declared:
            found += [path for path in leaves if path[: len(place)] == place[: len(path)]]
    return found


def _circles(r: Reader, leaves: Mapping[Path, Node], needs: Mapping[Path, list[Path]]) -> None:
    """Report cycles among the defaults, each default once."""
    done: set[Path] = set()
    told: set[Path] = set()
    for start in leaves:
        trail, open_ = [start], [iter(needs[start])]
        while start not in done:
            path = next(open_[-1], None)
            if path is None:
                done.add(trail.pop())
                open_.pop()
            elif path in trail:
                circle = trail[trail.index(path) :]
                if told.isdisjoint(circle):
                    names = " -> ".join(map(dotted, (*circle, path)))
                    r.report("E209", leaves[path], f"defaults need each other: {names}", "give one of them a value of its own")
                told.update(circle)
            elif path not in done:
                trail.append(path)
                open_.append(iter(needs[path]))


def dotted(path: Path) -> str:
    """Return `workload.a.b[0]`, as an author writes it; `path` is the path below the workload."""
    return "workload" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
