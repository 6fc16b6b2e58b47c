"""Translates the part of JSONata that has an equivalent: paths, operators, conditionals, constructors, common functions. An
expression with anything else is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from noetl_import.findings import Unmapped
from noetl_import.jsonpath import Step
from noetl_import.names import NOW, UUID, Names
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

WHOLE: Final = re.compile(r"\{%(.*)%\}", re.DOTALL)
TOKEN: Final = re.compile(
    r"\s*(?:/\*.*?\*/\s*)*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<variable>\$\$?[A-Za-z_]\w*|\$)|(?P<name>[A-Za-z_]\w*|`[^`]+`)"
    r"|(?P<symbol>:=|~>|!=|<=|>=|\.\.|\*\*|\?\?|\?:|[-+*/%=<>&?:.,;()\[\]{}|^@#]))",
    re.DOTALL,
)
BINDING: Final = {
    "?": 5, "or": 10, "and": 20, "=": 30, "!=": 30, "<": 30, "<=": 30, ">": 30, ">=": 30, "in": 30,
    "&": 40, "+": 40, "-": 40, "*": 50, "/": 50, "%": 50, ".": 70, "[": 80,
}  # fmt: skip
OPERATORS: Final = {"=": "=="}
TESTS: Final = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
REMEDY: Final = "write the value in the template language, or compute it in a python task"


def template(value: Any, names: Names) -> Doc:
    """Return a value with texts `{% ... %}` as a document."""
    match value:
        case str() if match := WHOLE.fullmatch(value.strip()):
            return expression(match[1], names)
        case dict():
            return Obj({key: template(each, names) for key, each in value.items()})
        case list():
            return Arr(tuple(template(each, names) for each in value))
    return Const(value)


def expression(text: str, names: Names) -> Doc:
    parser = _Parser(text, names)
    doc = parser.parse(0)
    if parser.kind != "end":
        raise parser.unmapped(parser.value)
    return doc


class _Parser:
    """Reads one expression by the binding power of its operators, and translates while it reads."""

    def __init__(self, text: str, names: Names) -> None:
        self.text, self.names, self.position = text.strip(), names, 0
        self.next()

    def next(self) -> str:
        """Return the current token, and read the next one."""
        previous = getattr(self, "value", "")
        self.kind, self.value = "end", ""
        if self.text[self.position :].strip():
            match = TOKEN.match(self.text, self.position)
            if match is None or match.lastgroup is None:
                raise self.unmapped(self.text[self.position : self.position + 12])
            self.position, self.kind = match.end(), match.lastgroup
            self.value = match[self.kind]
        return previous

    def unmapped(self, what: str) -> Unmapped:
        return Unmapped(f"JSONata that does not map, at {what.strip() or 'the end'!r} of {self.text}", REMEDY)

    def take(self, symbol: str) -> None:
        if self.value != symbol or self.kind not in ("symbol", "name"):
            raise self.unmapped(self.value)
        self.next()

    def parse(self, power: int) -> Doc:
        left = self.first()
        while self.kind in ("symbol", "name") and BINDING.get(self.value, 0) > power:
            left = self.infix(left)
        return left

    def first(self) -> Doc:
        kind, token = self.kind, self.next()
        match kind, token:
            case "number", _:
                return Const(json.loads(token))
            case "text", _:
                return Const(_unquoted(token))
            case "name", "true" | "false" | "null":
                return Const(json.loads(token))
            case "variable", _ if self.value == "(" and self.kind == "symbol":
                return self.call(token)
            case "variable", "$states":
                return self.states()
            case "variable", _ if len(token) > 1 and not token.startswith("$$"):
                return self.names.variable(token[1:])
            case "symbol", "-":
                doc = self.parse(60)
                return Const(-doc.value) if isinstance(doc, Const) else Expr(f"-{operand(doc)}", COMPOUND, "number")
            case "symbol", "(":
                doc = self.parse(0)
                self.take(")")
                return doc
            case "symbol", "[":
                return self.array()
            case "symbol", "{":
                return self.object()
        raise self.unmapped(token)

    def states(self) -> Doc:
        self.take(".")
        name = self.next()
        found = {"input": self.names.doc, "result": self.names.result, "errorOutput": self.names.error}.get(name)
        if found is not None:
            return found
        if name != "context":
            raise self.unmapped(f"$states.{name}")
        steps = list[Step]()
        while self.value == ".":
            self.next()
            steps.append(("key", self.next()))
        return self.names.context(steps)

    def infix(self, left: Doc) -> Doc:
        operator = self.next()
        if operator == ".":
            if self.kind not in ("name", "text"):
                raise self.unmapped(self.value)
            quoted = self.kind == "text"
            name = self.next()
            return left.get(_unquoted(name) if quoted else name.strip("`"))
        if operator == "[":
            return self.predicate(left)
        if operator == "?":
            then = self.parse(0)
            self.take(":")
            other = self.parse(4)
            return Expr(f"{operand(then)} if {operand(left)} else {operand(other)}", COMPOUND)
        right = self.parse(BINDING[operator])
        if operator == "&":
            parts = [part for each in (left, right) for part in (each.parts if isinstance(each, Joined) else (as_text(each),))]
            return Joined(tuple(parts))
        text = f"{operand(left)} {OPERATORS.get(operator, operator)} {operand(right)}"
        if operator in "+-*/%":
            return Expr(text, COMPOUND, "number")
        if operator in ("and", "or") and not _conditions(left, right):
            text = f"true if {text} else false"
        return Expr(text, COMPOUND, "bool")

    def predicate(self, left: Doc) -> Doc:
        """Return an element of a list, or those of a list of objects that have a value."""
        if self.kind == "name":
            key = self.next().strip("`")
            test = TESTS.get(self.next())
            value = self.parse(30)
            self.take("]")
            if test is None:
                raise self.unmapped(key)
            return Expr(f"{operand(left)} | selectattr({literal(key)}, '{test}', {operand(value)}) | list", FILTERED, "list")
        index = self.parse(0)
        self.take("]")
        if isinstance(index, Const) and isinstance(index.value, int):
            return left.item(index.value)
        if isinstance(index, Expr) and index.type == "number":
            return left.item(index.text())
        raise self.unmapped("[")

    def array(self) -> Doc:
        found = list[Doc]()
        while self.value != "]":
            found.append(self.parse(0))
            if self.value == "..":
                self.next()
                last = self.parse(0)
                self.take("]")
                return Expr(f"range({found[0].text()}, {operand(last)} + 1)", type="list")
            if self.value != "]":
                self.take(",")
        self.next()
        return Arr(tuple(found))

    def object(self) -> Doc:
        members: dict[str, Doc] = {}
        while self.value != "}":
            if self.kind != "text":
                raise self.unmapped(self.value)
            key = _unquoted(self.next())
            self.take(":")
            members[key] = self.parse(0)
            if self.value != "}":
                self.take(",")
        self.next()
        return Obj(members)

    def call(self, name: str) -> Doc:
        self.take("(")
        args = list[Doc]()
        while self.value != ")":
            args.append(self.parse(0))
            if self.value != ")":
                self.take(",")
        self.next()
        function = FUNCTIONS.get(name)
        if function is None:
            raise self.unmapped(f"{name}()")
        try:
            return function(self.names, *args)
        except TypeError:
            raise self.unmapped(f"{name}() with {len(args)} arguments") from None


def _conditions(*docs: Doc) -> bool:
    return all(
        (isinstance(doc, Expr) and doc.type == "bool") or (isinstance(doc, Const) and isinstance(doc.value, bool)) for doc in docs
    )


def _unquoted(token: str) -> str:
    text = token[1:-1]
    if token[0] == "'":
        text = text.replace("\\'", "'").replace('"', '\\"')
    return str(json.loads(f'"{text}"'))


def _filter(name: str, type: str = "") -> Callable[[Names, Doc], Doc]:
    return lambda _, doc: filtered(doc, name, type)


def _method(name: str, type: str = "text") -> Callable[..., Doc]:
    def call(_: Names, doc: Doc, *args: Doc) -> Doc:
        return Expr(f"{called(doc)}.{name}({', '.join(arg.text() for arg in args)})", type=type)

    return call


def _merge(_: Names, objects: Doc) -> Doc:
    if not isinstance(objects, Arr) or not objects.elements:
        raise Unmapped("$merge of a list that is not written out does not map", REMEDY)
    merged = objects.elements[0]
    for each in objects.elements[1:]:
        merged = Obj(dict(each.members), merged) if isinstance(each, Obj) and each.base is None else Expr(
            f"dict({merged.text()}, **{operand(each)})"
        )  # fmt: skip
    return merged


def _substring(_: Names, text: Doc, start: Doc, length: Doc | None = None) -> Doc:
    end = "" if length is None else f"{operand(start)} + {operand(length)}"
    if isinstance(start, Const) and isinstance(length, Const):
        end = str(start.value + length.value)
    return Expr(f"{called(text)}[{start.text()}:{end}]", type="text")


def _average(_: Names, doc: Doc) -> Doc:
    return Expr(f"({operand(doc)} | sum) / ({operand(doc)} | length)", COMPOUND, "number")


FUNCTIONS: Final[dict[str, Callable[..., Doc]]] = {
    "$count": _filter("length", "number"),
    "$length": _filter("length", "number"),
    "$sum": _filter("sum", "number"),
    "$max": _filter("max"),
    "$min": _filter("min"),
    "$average": _average,
    "$abs": _filter("abs", "number"),
    "$floor": lambda _, doc: Expr(f"({operand(doc)} // 1) | int", FILTERED, "number"),
    "$uppercase": _method("upper"),
    "$lowercase": _method("lower"),
    "$trim": _method("strip"),
    "$contains": lambda _, text, part: Expr(f"{operand(part)} in {operand(text)}", COMPOUND, "bool"),
    "$split": _method("split", "list"),
    "$join": lambda _, texts, by=Const(""): Expr(f"{operand(texts)} | join({by.text()})", FILTERED, "text"),
    "$substring": _substring,
    "$string": lambda _, doc: as_text(doc),
    "$number": lambda _, doc: filtered(doc, "string | fromjson", "number"),
    "$boolean": lambda _, doc: Expr(f"true if {operand(doc)} else false", COMPOUND, "bool"),
    "$not": lambda _, doc: Expr(f"not {operand(doc)}", COMPOUND, "bool"),
    "$exists": lambda _, doc: Expr(doc.present(), COMPOUND, "bool"),
    "$append": lambda _, first, second: Expr(f"{operand(first)} + {operand(second)}", COMPOUND, "list"),
    "$merge": _merge,
    "$keys": _filter("list", "list"),
    "$reverse": _filter("reverse", "list"),
    "$distinct": _filter("unique(case_sensitive=true) | list", "list"),
    "$sort": _filter("sort(case_sensitive=true)", "list"),
    "$base64encode": _filter("b64encode", "text"),
    "$base64decode": _filter("b64decode", "text"),
    "$parse": _filter("fromjson"),
    "$partition": lambda _, doc, size: filtered(doc, f"batch({size.text()}) | list", "list"),
    "$range": lambda _, first, last, step: Expr(f"range({first.text()}, {operand(last)} + 1, {step.text()})", type="list"),
    "$uuid": lambda names: names.computed.add(UUID),
    "$now": lambda names: names.computed.add(NOW),
}
