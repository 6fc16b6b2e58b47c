"""Reads JSONPath and applies it to documents: members, indices, slices, `[*]` and simple filters."""

from __future__ import annotations

import re
from typing import Any, Final

from noetl_import.findings import Unmapped
from noetl_import.values import FILTERED, Arr, Const, Doc, Expr, literal, operand

PART: Final = re.compile(
    r"""\.?(?:
        \.(?P<descend>\.)
      | (?P<name>[A-Za-z_$@\-\u0080-\uffff][\w\-$@\u0080-\uffff]*)(?P<call>\(\))?
      | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<begin>-?\d*)\s*:\s*(?P<end>-?\d*)\s*\]
      | (?P<wild>\[\s*\*\s*\]|\*)
      | \[\s*\?\s*\((?P<filter>.*?)\)\s*\](?!\s*\))
    )""",
    re.VERBOSE,
)
TERM: Final = re.compile(r"@(?:\.(?P<key>[\w.]+))?\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.+))?")
TESTS: Final = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

Step = tuple[str, Any]


def parsed(path: str) -> list[Step]:
    """Return the parts of a path, without its root. Raises `Unmapped`."""
    rest, found = path.lstrip("$"), list[Step]()
    while rest:
        match = PART.match(rest)
        if match is None or rest.startswith(".."):
            raise Unmapped(
                f"the path {path} has a form that does not map", "select the value in a Lambda function or a python task"
            )
        found.append(_step(match, path))
        rest = rest[match.end() :]
    return found


def _step(match: re.Match[str], path: str) -> Step:
    if match["call"]:
        if match["name"] == "length":
            return ("length", None)
        raise Unmapped(f"the function {match['name']}() of the path {path} does not map", "compute the value in a python task")
    if match["name"] is not None:
        return ("key", match["name"])
    if match["quote"]:
        return ("key", match["quoted"])
    if match["index"] is not None:
        return ("index", int(match["index"]))
    if match["wild"]:
        return ("each", None)
    if match["filter"] is not None:
        return ("filter", [_term(term.strip(), path) for term in match["filter"].split("&&")])
    return ("index", f"{match['begin']}:{match['end']}")


def _term(term: str, path: str) -> str:
    match = TERM.fullmatch(term)
    if match is None or "||" in term:
        raise Unmapped(f"the filter of the path {path} does not map", "filter the list in a python task")
    key, value = match["key"], match["value"]
    if value is None and key:
        return f"selectattr({literal(key)}, 'defined')"
    if value is None or not re.fullmatch(r"'[^']*'|\"[^\"]*\"|-?\d+(\.\d+)?|true|false|null", value.strip()):
        raise Unmapped(f"the filter of the path {path} does not map", "filter the list in a python task")
    value = {"null": "none"}.get(value.strip(), value.strip())
    test = TESTS[match["operator"]]
    return f"selectattr({literal(key)}, '{test}', {value})" if key else f"select('{test}', {value})"


def applied(doc: Doc, steps: list[Step]) -> Doc:
    """Return the part of `doc` that the parts of a path name."""
    for position, (kind, value) in enumerate(steps):
        match kind:
            case "key":
                doc = doc.get(value)
            case "index":
                doc = doc.item(value)
            case "length":
                doc = Expr(f"{operand(doc)} | length", FILTERED, "number")
            case "filter":
                doc = Expr(" | ".join([operand(doc), *value, "list"]), FILTERED, "list")
            case "each":
                return _of_each(doc, steps[position + 1 :])
    return doc


def _of_each(doc: Doc, steps: list[Step]) -> Doc:
    if isinstance(doc, Arr):
        return Arr(tuple(applied(each, steps) for each in doc.elements))
    if isinstance(doc, Const) and isinstance(doc.value, list):
        return Arr(tuple(applied(Const(each), steps) for each in doc.value))
    if not steps:
        return doc
    if all(kind in ("key", "index") for kind, _ in steps) and not any(
        isinstance(value, str) and "." in value for _, value in steps
    ):
        names = ".".join(str(value) for _, value in steps)
        return Expr(f"{operand(doc)} | map(attribute={literal(names)}) | list", FILTERED, "list")
    raise Unmapped("a path with anything but members after [*] does not map", "select the values in a python task")


def keys_of(path: str) -> list[str]:
    """Return the keys of a reference path, such as a ResultPath. Raises `Unmapped`."""
    steps = parsed(path)
    if any(kind != "key" for kind, _ in steps):
        raise Unmapped(f"the reference path {path} writes into a list", "write a member of an object instead")
    return [value for _, value in steps]
