"""Translates values of JSONPath states: paths, the intrinsic functions `States.*`, and templates with keys that end in `.$`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from noetl_import.findings import Unmapped
from noetl_import.names import UUID, Names
from noetl_import.values import (
    COMPOUND,
    FILTERED,
    Arr,
    Const,
    Doc,
    Expr,
    Joined,
    Obj,
    as_text,
    called,
    filtered,
    literal,
    operand,
)

TOKEN: Final = re.compile(
    r"\s*(?:(?P<call>States\.\w+)\s*\(|(?P<close>\))|(?P<comma>,)|'(?P<text>(?:[^'\\]|\\.)*)'"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)\b|(?P<path>\$(?:[^\s,()\[]|\[[^\]]*\])*))"
)
HASHES: Final = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}


def template(value: Any, names: Names) -> Doc:
    """Return a payload template (Parameters, ResultSelector, ItemSelector ...) as a document."""
    match value:
        case dict():
            return Obj({key.removesuffix(".$"): _member(key, each, names) for key, each in value.items()})
        case list():
            return Arr(tuple(template(each, names) for each in value))
    return Const(value)


def _member(key: str, value: Any, names: Names) -> Doc:
    if not key.endswith(".$"):
        return template(value, names)
    if not isinstance(value, str):
        raise Unmapped(f"{key} must be a path or an intrinsic function", "write a text that begins with $ or States.")
    return value_of(value, names)


def value_of(text: str, names: Names) -> Doc:
    """Return the value of a path or of an intrinsic function."""
    if text.startswith("$"):
        return names.path(text)
    doc, end = _parsed(text, 0, names)
    if text[end:].strip():
        raise Unmapped(f"{text} is not an intrinsic function", "write a path or a function States.*")
    return doc


def _parsed(text: str, start: int, names: Names) -> tuple[Doc, int]:
    match = TOKEN.match(text, start)
    if match is None or match["close"] or match["comma"]:
        raise Unmapped(f"{text} cannot be read at {text[start : start + 12]!r}", "correct the intrinsic function")
    end = match.end()
    if match["text"] is not None:
        return Const(re.sub(r"\\(['\\{}])", r"\1", match["text"]) if "{" not in match["text"] else match["text"]), end
    if match["number"] or match["word"]:
        return Const(json.loads(match["number"] or match["word"])), end
    if match["path"]:
        return names.path(match["path"]), end
    args = list[Doc]()
    while not ((token := TOKEN.match(text, end)) and token["close"]):
        if token is None:
            raise Unmapped(f"{text} has no closing parenthesis", "correct the intrinsic function")
        end = token.end() if token["comma"] else end
        doc, end = _parsed(text, end, names)
        args.append(doc)
    name = match["call"].removeprefix("States.")
    function = FUNCTIONS.get(name)
    try:
        if function is None:
            raise Unmapped(f"the intrinsic function {match['call']} does not map", "compute the value in a python task")
        return function(names, *args), token.end()
    except TypeError:
        raise Unmapped(f"{match['call']} has {len(args)} arguments", "correct the intrinsic function") from None


def _format(_: Names, pattern: Doc, *args: Doc) -> Doc:
    if not (isinstance(pattern, Const) and isinstance(pattern.value, str)):
        raise Unmapped("the pattern of States.Format is not a constant", "write the pattern into the function")
    texts = re.split(r"(?<!\\)\{\}", pattern.value)
    if len(texts) != len(args) + 1:
        raise Unmapped("States.Format has more or fewer values than {} in its pattern", "correct the intrinsic function")
    parts = list[Doc]()
    for text, arg in zip(texts, [*args, None], strict=True):
        parts += [Const(re.sub(r"\\(['\\{}])", r"\1", text))] if text else []
        parts += [as_text(arg)] if arg is not None else []
    constant = [part.value for part in parts if isinstance(part, Const)]
    return Const("".join(constant)) if len(constant) == len(parts) else Joined(tuple(parts))


def _filter(name: str, type: str = "") -> Callable[[Names, Doc], Doc]:
    return lambda _, doc: filtered(doc, name, type)


def _split(_: Names, text: Doc, splitter: Doc) -> Doc:
    if isinstance(splitter, Const) and isinstance(splitter.value, str) and len(splitter.value) == 1:
        return Expr(f"{called(text)}.split({literal(splitter.value)}) | select | list", FILTERED, "list")
    raise Unmapped("States.StringSplit by several characters does not map", "split the text in a python task")


def _range(_: Names, first: Doc, last: Doc, step: Doc) -> Doc:
    if not all(isinstance(each, Const) for each in (first, last, step)):
        if isinstance(step, Const) and step.value == 1:
            return Expr(f"range({first.text()}, {operand(last)} + 1)", type="list")
        raise Unmapped("States.ArrayRange with a step that is computed does not map", "compute the list in a python task")
    values = [each.value for each in (first, last, step) if isinstance(each, Const)]
    return Expr(f"range({values[0]}, {values[1] + (1 if values[2] > 0 else -1)}, {values[2]})", type="list")


def _merge(_: Names, first: Doc, second: Doc, deep: Doc) -> Doc:
    if deep != Const(False):
        raise Unmapped("a deep States.JsonMerge does not map", "merge the objects in a python task")
    if isinstance(second, Obj) and second.base is None:
        return Obj(dict(second.members), first)
    return Expr(f"dict({first.text()}, **{called(second)})")


def _hash(names: Names, data: Doc, algorithm: Doc) -> Doc:
    if not isinstance(algorithm, Const) or algorithm.value not in HASHES:
        raise Unmapped(
            "the algorithm of States.Hash is not a constant that AWS knows", "write MD5, SHA-1, SHA-256, SHA-384 or SHA-512"
        )
    code = f"hashlib.{HASHES[algorithm.value]}({{data}}.encode()).hexdigest()"
    return names.computed.add(("hash", code, ("hashlib",)), {"data": as_text(data)})


def _random(names: Names, start: Doc, end: Doc, seed: Doc | None = None) -> Doc:
    if seed is not None:
        raise Unmapped("States.MathRandom with a seed does not map", "AWS documents no generator: compute the number in a task")
    return names.computed.add(("random", "random.randrange({start}, {end})", ("random",)), {"start": start, "end": end})


FUNCTIONS: Final[dict[str, Callable[..., Doc]]] = {
    "Format": _format,
    "StringToJson": _filter("fromjson"),
    "JsonToString": _filter("tojson", "text"),
    "Array": lambda _, *docs: Arr(docs),
    "ArrayPartition": lambda _, doc, size: filtered(doc, f"batch({size.text()}) | list", "list"),
    "ArrayContains": lambda _, doc, value: Expr(f"{operand(value)} in {operand(doc)}", COMPOUND),
    "ArrayRange": _range,
    "ArrayGetItem": lambda _, doc, index: doc.item(index.value if isinstance(index, Const) else index.text()),
    "ArrayLength": _filter("length", "number"),
    "ArrayUnique": lambda _, doc: filtered(doc, "unique(case_sensitive=true) | list", "list"),
    "Base64Encode": _filter("b64encode", "text"),
    "Base64Decode": _filter("b64decode", "text"),
    "Hash": _hash,
    "JsonMerge": _merge,
    "MathAdd": lambda _, first, second: Expr(f"{operand(first)} + {operand(second)}", COMPOUND, "number"),
    "MathRandom": _random,
    "StringSplit": _split,
    "UUID": lambda names: names.computed.add(UUID),
}
