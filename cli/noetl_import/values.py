"""Documents of a state machine as symbolic values: where in the playbook each part of the document is.

A `Doc` is an expression of the template language, a constant, or an object or list of which the parts are known. Reading a path
of a known object gives the part itself, so a playbook reads `steps.get_user.result.payload.name` where the definition reads
`$.user.name`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_import.findings import Unmapped

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
METHODS: Final = frozenset({"get", "items", "keys", "values"})
"""Methods of mappings: `x.items` is defined although the data has no such key."""
RESERVED: Final = frozenset({"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"})
PRIMARY, FILTERED, COMPOUND = 0, 1, 2
TEMPLATE: Final = re.compile(r"\{\{|\{%|\{#")


@dataclass(frozen=True, slots=True)
class Doc:
    """A symbolic value; the base class is abstract."""

    def text(self) -> str:
        """Return the expression of the template language."""
        raise NotImplementedError

    def yaml(self) -> Any:
        """Return the value as a playbook has it: plain data with templates."""
        return "{{ " + self.text() + " }}"

    def level(self) -> int:
        return PRIMARY

    def get(self, key: str) -> Doc:
        base = _wrapped(self, FILTERED)
        plain = NAME.fullmatch(key) and key not in METHODS | RESERVED
        return Expr(f"{base}.{key}" if plain else f"{base}[{literal(key)}]")

    def item(self, index: int | str) -> Doc:
        return Expr(f"{_wrapped(self, FILTERED)}[{index}]")

    def present(self) -> str:
        """Return the condition that the value exists."""
        return f"{_wrapped(self, COMPOUND)} is defined"

    def renamed(self, old: str, new: str) -> Doc:
        """Return the value with the result of the task `old` named `new`."""
        return self


def _wrapped(doc: Doc, limit: int) -> str:
    return f"({doc.text()})" if doc.level() >= limit else doc.text()


def operand(doc: Doc) -> str:
    """Return the expression of `doc` as an operand of an operator or a filter."""
    return _wrapped(doc, COMPOUND)


def called(doc: Doc) -> str:
    """Return the expression of `doc` in front of a method or an index."""
    return _wrapped(doc, FILTERED)


def filtered(doc: Doc, name: str, type: str = "") -> Expr:
    return Expr(f"{operand(doc)} | {name}", FILTERED, type)


def literal(value: Any) -> str:
    """Return a constant in the template language."""
    match value:
        case None | True | False:
            return {None: "none", True: "true", False: "false"}[value]
        case str():
            escaped = (
                value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
            )
            return f"'{escaped}'"
        case list():
            return "[" + ", ".join(map(literal, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{literal(key)}: {literal(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


@dataclass(frozen=True, slots=True)
class Expr(Doc):
    """An expression of the template language. `type` is what its value certainly is: text, number or list."""

    source: str
    depth: int = PRIMARY
    type: str = ""

    def text(self) -> str:
        return self.source

    def level(self) -> int:
        return self.depth

    def present(self) -> str:
        base, _, key = self.source.rpartition("['")
        if key.removesuffix("']") in METHODS:
            return f"{literal(key.removesuffix(chr(39) + ']'))} in {base}"
        return f"{operand(self)} is defined"

    def renamed(self, old: str, new: str) -> Doc:
        return Expr(re.sub(rf"(?<![\w.'\"]){re.escape(old)}\b(?!['\"])", new, self.source), self.depth, self.type)


@dataclass(frozen=True, slots=True)
class Const(Doc):
    """A constant."""

    value: Any

    def text(self) -> str:
        return literal(self.value)

    def yaml(self) -> Any:
        return _constant(self.value)

    def get(self, key: str) -> Doc:
        if isinstance(self.value, dict) and key in self.value:
            return Const(self.value[key])
        raise no_such(key)

    def item(self, index: int | str) -> Doc:
        if isinstance(self.value, list) and isinstance(index, int) and -len(self.value) <= index < len(self.value):
            return Const(self.value[index])
        raise no_such(f"[{index}]")

    def present(self) -> str:
        return "true"


def _constant(value: Any) -> Any:
    match value:
        case str():
            return "{{ " + literal(value) + " }}" if TEMPLATE.search(value) else value
        case list():
            return [_constant(each) for each in value]
        case dict():
            return {key: _constant(each) for key, each in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Obj(Doc):
    """An object with known members over a `base` (None: it has no others). `hidden` members can be read, but are not part of the
    value as a whole. `whole` is the expression of all of it, if there is one."""

    members: Mapping[str, Doc]
    base: Doc | None = None
    hidden: Mapping[str, Doc] = field(default_factory=dict)
    whole: Doc | None = None

    def text(self) -> str:
        if self.whole is not None:
            return self.whole.text()
        if self.base is None:
            return "{" + ", ".join(f"{literal(key)}: {each.text()}" for key, each in self.members.items()) + "}"
        named = [f"{key}={doc.text()}" for key, doc in self.members.items() if NAME.fullmatch(key) and key not in RESERVED]
        others = {key: doc for key, doc in self.members.items() if not NAME.fullmatch(key) or key in RESERVED}
        spread = [f"**{Obj(others).text()}"] if others else []
        return f"dict({', '.join([self.base.text(), *named, *spread])})"

    def yaml(self) -> Any:
        if self.base is None and self.whole is None:
            return {key: each.yaml() for key, each in self.members.items()}
        return "{{ " + self.text() + " }}"

    def get(self, key: str) -> Doc:
        if found := self.members.get(key) or self.hidden.get(key):
            return found
        if self.base is None:
            raise no_such(key)
        return self.base.get(key)

    def item(self, index: int | str) -> Doc:
        raise no_such(f"[{index}]")

    def present(self) -> str:
        return "true"

    def renamed(self, old: str, new: str) -> Doc:
        base = self.base and self.base.renamed(old, new)
        whole = self.whole and self.whole.renamed(old, new)
        return Obj({key: each.renamed(old, new) for key, each in self.members.items()}, base, self.hidden, whole)


@dataclass(frozen=True, slots=True)
class Arr(Doc):
    """A list of known elements; `whole` is the expression of all of it, if there is one."""

    elements: tuple[Doc, ...]
    whole: Doc | None = None

    def text(self) -> str:
        if self.whole is not None:
            return self.whole.text()
        return "[" + ", ".join(each.text() for each in self.elements) + "]"

    def yaml(self) -> Any:
        return self.whole.yaml() if self.whole is not None else [each.yaml() for each in self.elements]

    def get(self, key: str) -> Doc:
        raise no_such(key)

    def item(self, index: int | str) -> Doc:
        if isinstance(index, int) and -len(self.elements) <= index < len(self.elements):
            return self.elements[index]
        if isinstance(index, int):
            raise no_such(f"[{index}]")
        return Expr(f"{self.text()}[{index}]")

    def present(self) -> str:
        return "true"

    def renamed(self, old: str, new: str) -> Doc:
        whole = self.whole and self.whole.renamed(old, new)
        return Arr(tuple(each.renamed(old, new) for each in self.elements), whole)


@dataclass(frozen=True, slots=True)
class Joined(Doc):
    """Text of several parts."""

    parts: tuple[Doc, ...]

    def text(self) -> str:
        return " ~ ".join(operand(part) for part in self.parts) or "''"

    def level(self) -> int:
        return COMPOUND if len(self.parts) > 1 else self.parts[0].level() if self.parts else PRIMARY

    def yaml(self) -> Any:
        texts = [part.value if isinstance(part, Const) else None for part in self.parts]
        if len(self.parts) == 1 or any(text is not None and TEMPLATE.search(text) for text in texts):
            return "{{ " + self.text() + " }}"
        return "".join(part.value if isinstance(part, Const) else "{{ " + part.text() + " }}" for part in self.parts)

    def renamed(self, old: str, new: str) -> Doc:
        return Joined(tuple(part.renamed(old, new) for part in self.parts))


@dataclass(frozen=True, slots=True)
class View(Doc):
    """A value that the playbook has in another form than the definition: `read` gives a part of it. As a whole it is `inner`, the
    form of the playbook, and `note` records that."""

    inner: Doc
    kind: str
    read: Callable[[str | int], Doc] = field(compare=False)
    note: Callable[[], None] = field(compare=False, default=lambda: None)
    condition: str = ""
    """The condition that it exists, if that is not its being defined."""

    def text(self) -> str:
        self.note()
        return self.inner.text()

    def yaml(self) -> Any:
        self.note()
        return self.inner.yaml()

    def level(self) -> int:
        return self.inner.level()

    def get(self, key: str) -> Doc:
        return self.read(key)

    def item(self, index: int | str) -> Doc:
        return self.read(index)

    def present(self) -> str:
        return self.condition or self.inner.present()

    def renamed(self, old: str, new: str) -> Doc:
        return View(
            self.inner.renamed(old, new), self.kind, lambda key: self.read(key).renamed(old, new), self.note, self.condition
        )


def no_such(key: str) -> Unmapped:
    return Unmapped(f"the document has no {key} here", "correct the path, or write the needed value manually")


def stored(value: Doc, ref: Doc) -> Doc:
    """Return `value` read from the result `ref` that has it; what is known of its parts remains known."""
    match value:
        case Obj(base=None, hidden={}, whole=None):
            return Obj({key: stored(each, ref.get(key)) for key, each in value.members.items()}, whole=ref)
        case Arr(whole=None):
            return Arr(tuple(stored(each, ref.item(n)) for n, each in enumerate(value.elements)), ref)
        case Const(value=dict() | list()):
            return stored(opened(value), ref)
        case Const() | View():
            return value
        case Expr():
            return Expr(ref.text(), type=value.type)
    return ref


def opened(doc: Doc) -> Doc:
    """Return a constant object or list with its members or elements."""
    match doc:
        case Const(value=dict()):
            return Obj({key: Const(each) for key, each in doc.value.items()})
        case Const(value=list()):
            return Arr(tuple(Const(each) for each in doc.value))
    return doc


def with_member(doc: Doc, keys: list[str], value: Doc) -> Doc:
    """Return `doc` with `value` at the path `keys`, as a ResultPath puts it there."""
    if not keys:
        return value
    key, *rest = keys
    doc = opened(doc)
    if rest:
        value = with_member(_member(doc, key), rest, value)
    if isinstance(doc, Obj) and doc.whole is None:
        return Obj({**doc.members, key: value}, doc.base, doc.hidden)
    return Obj({key: value}, doc)


def _member(doc: Doc, key: str) -> Doc:
    if isinstance(doc, Obj) and doc.base is None:
        return doc.members.get(key, Obj({}))
    found = doc.get(key)
    if not isinstance(found, Expr):
        return found
    return View(Expr(f"{operand(found)} | default({{}})", FILTERED), "default", lambda part: found.get(str(part)))


def as_text(doc: Doc) -> Doc:
    """Return `doc` as the text that `States.Format` and `$string` make of it."""
    match doc:
        case Const(value=str()):
            return doc
        case Const():
            return Const(json.dumps(doc.value, separators=(",", ":")))
        case Joined() | Expr(type="text"):
            return doc
        case Expr(type="number"):
            return Expr(f"{operand(doc)} | string", FILTERED, "text")
    value = operand(doc)
    return Expr(f"{value} if {value} is string else {value} | tojson", COMPOUND, "text")
