"""Generates the tables of the language reference, and the JSON Schema, from the table of fields.

`python -m tests.unit.docs.reference` writes them: the parts between `<!-- fields: NAME -->` and `<!-- end -->` in the pages of
docs/language, the pages `fields.md` and `masking.md` as a whole, and docs/playbook.schema.json. A test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from noetl_core.dsl.fields import cursor, flow, keychain, playbook, policies, tools, triggers, value_schema
from noetl_core.dsl.fields.types import (
    Anything,
    Block,
    Choice,
    Code,
    Condition,
    Duration,
    Field,
    Flag,
    ListOf,
    Name,
    Part,
    Prose,
    Shape,
    Text,
    Type,
    Values,
)
from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import UNSET
from noetl_core.dsl.numbers import Range
from noetl_core.dsl.schema import render
from tests.unit.docs import masking

DOCS: Final = Path(__file__).parents[3] / "docs"
FOLDER: Final = DOCS / "language"
FIELDS: Final = FOLDER / "fields.md"
MARKED: Final = re.compile(r"(<!-- fields: ([\w.]+)((?: -[\w.]+)*) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
NO_EFFECT: Final = "accepted without effect"

BLOCKS: Final[Mapping[str, Block]] = {
    block.name: block
    for block in (
        playbook.ROOT,
        playbook.METADATA,
        keychain.CREDENTIAL,
        *keychain.KEYCHAIN.values(),
        playbook.EXECUTOR_SPEC,
        triggers.TRIGGER,
        playbook.LIMITS_BLOCK,
        value_schema.VALUE_SCHEMA,
        flow.STEP,
        flow.STEP_SPEC,
        policies.ADMISSION,
        flow.COMPENSATION,
        flow.LOOP,
        cursor.CURSOR,
        flow.ROUTER,
        flow.ARC,
        tools.TASK,
        tools.SCRIPT,
        policies.TASK_POLICY,
        policies.RULE,
        policies.THEN,
        policies.ERROR,
        *policies.SUGAR.values(),
        policies.CHOICE,
        tools.TIMEOUT_PARTS,
    )
}
"""The mappings that `fields.md` shows; those within them stand in their tables."""

HEAD: Final = """# Fields

This page lists every field of the language: its meaning, its allowed values, and its default. The other pages explain how the fields work together. This page and the
[JSON Schema](../playbook.schema.json) are generated from the table that `noetl validate` reads; an editor that knows the schema shows the same sentences.

A field of a nested mapping is written with dots, such as `spec.join`. Keys that begin with `x-` may stand everywhere. The
engine reads only [`x-schema`](playbook.md#accepted-inputs) of `workload`; `noetl run` also reads [`x-services`](../decisions.md#x-services).
"""
TOOLS_HEAD: Final = """## Tools

Inputs and options of the tool kinds, in addition to the fields of every [task](#task). All of them may be templates, except for program text. Options stand under `spec` of the
task or, as defaults, under `spec` of an outer scope ([layering](tasks.md#spec-layering)).
"""


def table(block: Block, page: str, without: Iterable[str] = ()) -> str:
    """A block, the mappings within it included, as a table of the page."""
    found = [
        (name, field, link) for name, field, link in _leaves(block) if not any(f"{name}.".startswith(f"{w}.") for w in without)
    ]
    rows = ["| field | default | type | |", "|---|---|---|---|"]
    others = {f.same_as: [o.name for _, o, _ in found if o.same_as == f.same_as] for _, f, _ in found}
    for name, field, link in found:
        if field.effect and not field.same_as:
            also = f" (`{'`, `'.join(others[field.name])}`)" if field.name in others else ""
            more = "" if link == block.link else f" [More]({link.removeprefix(page)})"
            rows.append(f"| `{name}`{also} | {_default(field)} | {_type(field.type)} | {field.doc}{more} |")
    idle = ", ".join(f"`{name}`" for name, field, _ in found if not field.effect)
    rows += [f"| {idle} | | | {NO_EFFECT} |"] if idle else []
    return "\n".join(rows) + "\n"


def _leaves(block: Block, prefix: str = "") -> Iterator[tuple[str, Field, str]]:
    for field in block:
        name = f"{prefix}{field.name}"
        if isinstance(field.type, Block):
            yield from _leaves(field.type, f"{name}.")
        else:
            yield name, field, field.link or block.link


def _default(field: Field) -> str:
    if field.required:
        return "required"
    if field.default is UNSET:
        return field.otherwise
    value = field.default
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, int | float):
        return f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"
    return f"`{value}`"


def _type(of: Type) -> str:
    """Return the description of a type in words."""
    match of:
        case Text() | Prose():
            return "text"
        case Name():
            return "a name"
        case Choice(words):
            shown = [w for w in words if w.upper() == w] or words
            return ", ".join(f"`{word}`" for word in shown)
        case Flag(template):
            return "true or false" + _or_template(template)
        case Duration(allowed):
            return f"{allowed.words} (seconds), or text such as `15m`, or a template"
        case Condition():
            return "a condition"
        case Values():
            return "a mapping"
        case Code():
            return "program text"
        case Anything(words):
            return words
        case Shape(_, words, template):
            return words + _or_template(template and "template" not in words and "expression" not in words)
        case ListOf():
            return "a list"
        case Range():
            return of.words + (", or true" if of.switch else "") + _or_template(of.template)
        case Part() | Block():
            return "a mapping"


def _or_template(template: bool) -> str:
    return ", or a template" if template else ""


def fields_page() -> str:
    """`fields.md`."""
    parts = [HEAD]
    parts += [f"## {_heading(name)}\n\n{block.doc} [More]({block.link})\n\n{table(block, '')}" for name, block in BLOCKS.items()]
    parts.append(TOOLS_HEAD)
    every = Block("", "", "", *tools.COMMON_OPTIONS, tools.POLICY_OF_TASK)
    parts.append(f"### Every kind\n\nOptions that every kind takes.\n\n{table(every, '')}")
    for kind, spec in KINDS.items():
        parts.append(f"### {kind}\n\n[More]({spec.page})\n\n{table(Block('', '', spec.page, *spec.fields), '')}")
        if spec.options:
            parts.append(f"Options of `{kind}`:\n\n{table(Block('', '', spec.page, *spec.options), '')}")
    return "\n".join(parts)


def _heading(name: str) -> str:
    words = name.replace("_", " ")
    return words[0].upper() + words[1:]


def marked(page: Path) -> str:
    """A page with its tables as they should be."""

    def made(found: re.Match[str]) -> str:
        name = found[2]
        tool = KINDS.get(name.removeprefix("tool."))
        block = BLOCKS[name] if tool is None or "." not in name else Block("", "", tool.page, *tool.fields)
        return f"{found[1]}\n{table(block, page.name, [w.removeprefix('-') for w in found[3].split()])}\n{found[5]}"

    return MARKED.sub(made, page.read_text())


def generated() -> dict[Path, Callable[[], str]]:
    """Every generated file, with a function that returns its text."""
    pages = {page: partial(marked, page) for page in sorted(FOLDER.glob("*.md")) if page not in (FIELDS, masking.PAGE)}
    return {**pages, FIELDS: fields_page, masking.PAGE: masking.page, DOCS / "playbook.schema.json": render}


if __name__ == "__main__":
    for path, text in ((path, made()) for path, made in generated().items()):
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
