"""The elements of the tables: a field of a mapping, a block of fields, and the types of values.

The classes are plain: generated ones (dataclasses) would take longer to create than all tables, in every process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from noetl_core.dsl.model import UNSET
from noetl_core.dsl.numbers import Range


class Text:
    """Text that is not empty; where there is a `pattern`, text of that form."""

    __slots__ = __match_args__ = ("pattern",)

    def __init__(self, pattern: re.Pattern[str] | None = None) -> None:
        self.pattern = pattern


class Prose:
    """Text for people; it may be empty or null."""

    __slots__ = ()


class Name:
    """An identifier in the engine. `of` is the noun for the named thing in error messages."""

    __slots__ = __match_args__ = ("of",)

    def __init__(self, of: str) -> None:
        self.of = of


class Choice:
    """One of some words."""

    __slots__ = __match_args__ = ("words", "template")

    def __init__(self, words: tuple[str, ...], template: bool = False) -> None:
        self.words = words
        self.template = template


class Flag:
    """true or false."""

    __slots__ = __match_args__ = ("template",)

    def __init__(self, template: bool = False) -> None:
        self.template = template


class Duration:
    """Seconds, or text with a unit."""

    __slots__ = __match_args__ = ("allowed",)

    def __init__(self, allowed: Range) -> None:
        self.allowed = allowed


class Condition:
    """An expression that is true or false."""

    __slots__ = ()


class Values:
    """A mapping of names to values. `whole`: one template may be given for all of it."""

    __slots__ = __match_args__ = ("whole",)

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole


class Code:
    """Program text, which is never rendered."""

    __slots__ = ()


class Anything:
    """A value that is not checked before it is used. `words` describe the expected value."""

    __slots__ = __match_args__ = ("words",)

    def __init__(self, words: str) -> None:
        self.words = words


class Shape:
    """A value with a form of its own: the JSON Schema has it under `name`, and a module of its own reads it."""

    __slots__ = __match_args__ = ("name", "words", "template")

    def __init__(self, name: str, words: str, template: bool = False) -> None:
        self.name = name
        self.words = words
        self.template = template


class Part:
    """A mapping that is read by itself: messages about it do not mention the mapping around it."""

    __slots__ = __match_args__ = ("block",)

    def __init__(self, block: Block) -> None:
        self.block = block


class ListOf:
    """A list of mappings, or of other items with a form of their own."""

    __slots__ = __match_args__ = ("of", "least")

    def __init__(self, of: Block | Shape, least: int = 0) -> None:
        self.of = of
        self.least = least


class Field(NamedTuple):
    """One key of a mapping."""

    name: str
    type: Type
    doc: str
    default: Any = UNSET
    """The default, if it is a single value."""
    otherwise: str = ""
    """The default in words, if it is not a single value."""
    link: str = ""
    """The explanation: a page of docs/language with a section. Empty: that of the field's block."""
    required: bool = False
    effect: bool = True
    """False: accepted without effect."""
    same_as: str = ""
    """The field that this is another spelling of."""
    label: str = ""
    """Its name in messages, with `{}` for its owner; empty: its own name."""
    references: bool = False
    """If true, the value may hold references, which the tool reads or passes on itself."""


class Block:
    """A mapping of the language. `prefix` and `joint` make the words of messages: `policy of step "a"`, `delay in then of`."""

    __slots__ = (
        "below",
        "by_name",
        "doc",
        "fields",
        "idle",
        "joint",
        "keys",
        "layered",
        "legacy",
        "link",
        "misplaced",
        "name",
        "open",
        "prefix",
        "scalars",
    )

    def __init__(
        self,
        name: str,
        doc: str,
        link: str,
        *fields: Field,
        prefix: str = "",
        joint: str = " of ",
        legacy: Mapping[str, str] | None = None,
        misplaced: Iterable[str] = (),
        open: bool = False,
        layered: bool = False,
    ) -> None:
        self.name = name
        self.doc = doc
        self.link = link
        self.fields = fields
        self.prefix = prefix
        self.joint = joint
        self.legacy = legacy or {}
        """Keys of the legacy dialects -> their replacements."""
        self.misplaced = frozenset(misplaced)
        """Keys that do not belong here and are reported by a check that knows where they do."""
        self.open = open
        """Other keys are free."""
        self.layered = layered
        """Options of tool kinds may be set beside its fields and are inherited; their reader checks all of its keys."""
        self.by_name: Mapping[str, Field] = {field.name: field for field in fields}
        self.keys = frozenset(self.by_name)
        self.scalars: Mapping[str, Field] = {field.name: field for field in fields if isinstance(field.type, Scalar)}
        """The fields that are single values."""
        self.below: Mapping[str, Block] = {field.name: field.type for field in fields if isinstance(field.type, Block)}
        """The mappings that belong to this one."""
        self.idle = tuple(field.name for field in fields if not field.effect)

    def __getitem__(self, name: str) -> Field:
        return self.by_name[name]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def written(self, **values: Any) -> dict[str, Any]:
        """Return the entries of a canonical document, without empty ones and without defaults."""
        out: dict[str, Any] = {}
        for key, value in values.items():
            field = self.by_name[key.removesuffix("_")]
            empty = value is None or value is UNSET or value == {} or value == []
            if not (empty or (field.default is not UNSET and value == field.default)):
                out[field.name] = value
        return out


Scalar = Text | Prose | Name | Choice | Flag | Condition | Range
Type = Scalar | Duration | Values | Code | Anything | Shape | ListOf | Part | Block

SPELLING: Final = "The same as `{}`."
"""The description of an alternative spelling."""


def also(field: Field, *names: str) -> tuple[Field, ...]:
    """Return the field with its other spellings."""
    return (field, *(another(field, name) for name in names))


def another(field: Field, name: str) -> Field:
    """Return another spelling of a field."""
    return field._replace(name=name, doc=SPELLING.format(field.name), same_as=field.name, required=False)
