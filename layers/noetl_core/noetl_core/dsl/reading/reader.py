"""Typed reading of nodes: errors are recorded with their positions, and reading continues."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from noetl_core.dsl.fields.types import Block, Choice, Condition, Flag, Name, Prose, Text
from noetl_core.dsl.model import Path
from noetl_core.dsl.numbers import DURATION, QUOTED, BadNumber, Range, in_range
from noetl_core.dsl.reading.diagnostics import MIGRATE, Diagnostic, Severity, suggest_word
from noetl_core.dsl.reading.load import Loaded, Node
from noetl_core.expr import Compiled, Read, compile_text, is_template
from noetl_core.expr.views import COMMAND
from noetl_core.python_code import LONGEST_CHECKED

NAME: Final = re.compile(r"\w[\w.\-]{0,127}\Z")

_KIND_WORDS: Final = {"mapping": "a mapping", "list": "a list", "scalar": "a plain value"}


class Content:
    """The content of a mapping: the usable values of its fields, by name, and the nodes of all fields that it has.

    `get` and `node` take a path through the mappings below. A field with a form of its own (a pipeline, rules) is a node
    only.
    """

    __slots__ = ("below", "block", "nodes", "values")

    def __init__(self, block: Block, nodes: dict[str, Node]) -> None:
        self.block = block
        self.nodes = nodes
        self.values: dict[str, Any] = {}
        self.below: dict[str, Content] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether the field is written, usable or not."""
        return name in self.nodes

    def get(self, *path: str) -> Any:
        """Return the value of a field; None when it is left out or not usable."""
        content = self._at(path) if len(path) > 1 else self
        return None if content is None else content.values.get(path[-1])

    def filled(self, name: str) -> Any:
        """Return the value of a field, or its default."""
        value = self.values.get(name)
        return self.block[name].default if value is None else value

    def node(self, *path: str) -> Node | None:
        """Return the node of a field; None when it is left out."""
        content = self._at(path) if len(path) > 1 else self
        return None if content is None else content.nodes.get(path[-1])

    def at(self, *path: str) -> tuple[Node, Content] | None:
        """Return the node and the content of a mapping below; None when it is left out."""
        content, node = self._at(path), self.node(*path)
        return None if content is None or node is None or path[-1] not in content.below else (node, content.below[path[-1]])

    def _at(self, path: tuple[str, ...]) -> Content | None:
        content: Content | None = self
        for name in path[:-1]:
            if content is None:
                break
            content = content.below.get(name)
        return content


_QUOTED_COMMAND: Final = re.compile(rf"""(['"]){COMMAND.pattern}\1""")
"""The name of a statement's result in a program."""


@dataclass
class Reader:
    """One validation: the loaded text, and the findings so far."""

    loaded: Loaded
    source: str
    diagnostics: list[Diagnostic] = field(default_factory=list)
    programs: bool = True
    """If true, program text is compiled. The text of a pinned playbook is exempt, because it was validated before."""
    lenient: bool = False
    """If true, a task of another playbook may be missing: it may be in a catalog that is not available here."""
    strict: bool = False
    """The value of `strict` in the playbook's executor."""
    unresolved: set[str] = field(default_factory=set)
    """Tasks of the workbook that are missing for this reason."""
    reads: dict[str, tuple[Read, ...]] = field(default_factory=dict)
    """The names that each template text reads. Texts that do not compile are absent."""
    compiled: dict[str, Compiled] = field(default_factory=dict)
    """The same texts compiled: a large playbook has more of them than the cache of `expr` holds."""
    programs_left: int = LONGEST_CHECKED
    """The number of characters of program text that may still be compiled. Validation has one time budget per playbook."""
    program_reads: dict[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    """The names that each program text reads and does not bind, with their line and column in it."""

    @cached_property
    def reads_statements(self) -> bool:
        """Return whether a template or a program reads the result of one of several statements, as `command_1` (`expr.views`)."""
        return _QUOTED_COMMAND.search(self.loaded.text) is not None or any(
            COMMAND.fullmatch(part) for reads in self.reads.values() for read in reads for part in read.path[1:]
        )

    def compile(self, text: str) -> Compiled:
        """Compile a template and record the names that it reads. Raises as `compile_text`."""
        compiled = self.compiled[text] = compile_text(text)
        self.reads[text] = compiled.reads
        return compiled

    def report(
        self, code: str, where: Node | tuple[Node, str], message: str, hint: str = "", severity: Severity | None = None
    ) -> None:
        """Record a finding at a node, or at the key of a mapping: `(node, key)`."""
        if isinstance(where, tuple):
            node, key = where
            line, col = node.key_at(key)
            path = (*node.path, key)
        else:
            line, col, path = where.line, where.col, where.path
        self.report_at(code, (line, col), path, message, hint, severity)

    def report_at(
        self, code: str, at: tuple[int, int], path: Path, message: str, hint: str = "", severity: Severity | None = None
    ) -> None:
        """Record a finding at a line and column."""
        severity = severity or ("error" if code[0] == "E" else "warning")
        self.diagnostics.append(Diagnostic(code, severity, message, hint, self.source, *at, path))

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)

    # --- shapes ---------------------------------------------------------------------------------------------------------

    def mapping(self, node: Node | None, what: str) -> dict[str, Node]:
        """Return the entries of a mapping; empty (and reported) when the node is something else, empty when there is none."""
        if node is None:
            return {}
        if isinstance(node.value, dict):
            return node.value
        if node.value is None:
            self.report("E112", node, f"{what} is empty", "it must be a mapping")
        else:
            self.report("E112", node, f"{what} must be a mapping, not {self.word(node)}")
        return {}

    def sequence(self, node: Node | None, what: str) -> list[Node]:
        """Return the items of a list, in the same way."""
        if node is None:
            return []
        if isinstance(node.value, list):
            return node.value
        self.report("E112", node, f"{what} must be a list, not {self.word(node)}")
        return []

    def word(self, node: Node) -> str:
        value = node.value
        if isinstance(value, bool):
            return "a boolean"
        if isinstance(value, int | float):
            return "a number"
        if value is None:
            return "null"
        return "text" if isinstance(value, str) else _KIND_WORDS[node.kind]

    def keys(
        self,
        node: Node,
        allowed: Iterable[str],
        what: str,
        legacy: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> dict[str, Node]:
        """Return the known entries of a mapping; unknown keys are reported (resolution 19), `x-` keys are left out.

        `legacy`: keys of the legacy dialects -> their replacements. `elsewhere`: keys of other engines -> their equivalents.
        """
        known = frozenset(allowed)
        out = {}
        for key, child in self.mapping(node, what).items():
            if key in known:
                out[key] = child
            elif key.startswith("x-"):
                continue
            elif legacy and key in legacy:
                message = f'"{key}" in {what} belongs to a legacy dialect: {legacy[key]}'
                self.report("E120", (node, key), message, MIGRATE)
            else:
                near = (elsewhere or {}).get(key) or suggest_word(key, known)
                hint = near or (f"known: {', '.join(sorted(known))}" if len(known) <= 8 else "")
                self.report("E110", (node, key), f'unknown key "{key}" in {what}', hint)
        return out

    def read(self, node: Node | None, block: Block, owner: str) -> Content:
        """Return the content of a mapping by its block. Unknown keys, wrong types and numbers out of range are reported, here
        and below.

        `owner` is the name in messages of the part that has the mapping.
        """
        if node is None:
            return Content(block, {})
        what = f"{block.prefix}{owner}"
        if block.open or block.layered:
            content = Content(block, self.mapping(node, what))
        else:
            content = Content(
                block, self.keys(node, block.keys | block.misplaced if block.misplaced else block.keys, what, block.legacy)
            )
        scalars, below = block.scalars, block.below
        for name, child in content.nodes.items():
            if name in scalars:
                field = scalars[name]
                what_of = field.label.format(owner) if field.label else f"{name}{block.joint}{owner}"
                value = _READ[type(field.type)](self, child, what_of, field.type)
                if value is not None:
                    content.values[name] = value
            elif name in below:
                content.below[name] = self.read(child, below[name], owner)
        for name in block.idle:
            if name in content.nodes:
                label = block[name].label
                self._no_effect(node, name, label.format(owner) if label else f'"{name}" in {what}')
        return content

    def missing(self, node: Node, key: str, message: str, hint: str = "", *, code: str = "E111", checked: bool = True) -> None:
        """Report that `key` is missing, unless another key looks like it (`checked`: `keys` has reported that key)."""
        if not isinstance(node.value, dict):
            return
        near = difflib.get_close_matches(key, node.value, 1, cutoff=0.7)
        if near and checked:
            path = (*node.path, near[0])
            near = near if any(d.code == "E110" and d.path == path for d in self.diagnostics) else []
        if not near:
            self.report(code, node, message, hint)
        elif not checked:
            self.report("E110", (node, near[0]), f'unknown key "{near[0]}"', f'did you mean "{key}"?')

    # --- scalars --------------------------------------------------------------------------------------------------------

    def text(self, node: Node | None, what: str) -> str | None:
        """Return text that is not empty; None when it is missing or reported."""
        if node is None:
            return None
        if isinstance(node.value, str) and node.value.strip():
            return node.value
        if node.plain_text and not isinstance(node.value, str) and node.value is not None:
            self.report("E112", node, f"{what} must be text, not {self.word(node)}", f'quote it: "{node.plain_text}"')
        else:
            self.report("E112", node, f"{what} must be text, not {self.word(node) if node.value != '' else 'empty'}")
        return None

    def prose(self, node: Node | None, what: str) -> str | None:
        """Return a description; null and empty text count as none."""
        if node is None or node.value is None or node.value == "":
            return None
        return self.text(node, what)

    def name(self, node: Node | None, what: str) -> str | None:
        text = self.text(node, what)
        if text is None or node is None:
            return None
        if not NAME.match(text):
            self.report("E115", node, f'"{text[:60]}" cannot name {what}', "letters, digits, _, - and . (at most 128)")
            return None
        return text

    def choice(self, node: Node | None, allowed: Iterable[str], what: str) -> Any:
        """Return one of some words; None when it is missing or reported."""
        if node is None:
            return None
        words = list(allowed)
        if isinstance(node.value, str) and node.value in words:
            return node.value
        written = (
            node.plain_text if node.plain_text is not None else str(node.value) if node.kind == "scalar" else self.word(node)
        )
        hint = suggest_word(written, words) or f"one of {', '.join(words)}"
        self.report(
            "E113", node, f'{what} cannot be "{written}"' if node.kind == "scalar" else f"{what} cannot be {written}", hint
        )
        return None

    def flag(self, node: Node, what: str, allowed: Flag) -> Any:
        """Return true or false, or the template that is allowed instead; None when it is reported."""
        if isinstance(node.value, bool) or (allowed.template and is_template(node.value)):
            return node.value
        hint = "true or false" if str(node.value).lower() not in ("yes", "on", "no", "off") else "YAML 1.2: true or false"
        self.report("E112", node, f"{what} must be true or false, not {self.word(node)}", "" if allowed.template else hint)
        return None

    def condition(self, node: Node, what: str) -> str:
        """Return the text of a condition; booleans are kept."""
        value = node.value
        if isinstance(value, bool):
            return "{{ true }}" if value else "{{ false }}"
        if not isinstance(value, str):
            self.report("E112", node, f"{what} must be an expression, not {self.word(node)}", 'write "{{ ... }}"')
            return "{{ false }}"
        if not is_template(value):
            bare = value.strip()
            if bare in ("true", "false"):
                return f"{{{{ {bare} }}}}"
            self.report("E303", node, f"{what} is plain text, not an expression", f'write "{{{{ {bare[:60]} }}}}"')
            return "{{ false }}"
        return value

    def number(self, node: Node | None, what: str, allowed: Range) -> Any:
        """Return a number of a range, or another value that the range allows; None when it is missing or reported."""
        if node is None or (node.value is None and allowed.null):
            return None
        value = node.value
        if (allowed.template and is_template(value)) or (allowed.switch and isinstance(value, bool)):
            return value
        if (
            isinstance(value, str)
            and allowed.quoted
            and (re.fullmatch(QUOTED, value) or (allowed.time and DURATION.match(value)))
        ):
            try:
                value = in_range(value, allowed, what)
            except BadNumber as error:
                self.report("E124", node, str(error))
                return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            hint = f"write {value} without quotes" if isinstance(value, str) and re.fullmatch(r"[0-9.]+", value) else ""
            self.report("E112", node, f"{what} must be a number, not {self.word(node)}", hint)
            return None
        if allowed.whole and not float(value).is_integer():
            self.report("E112", node, f"{what} must be a whole number")
            return None
        if not allowed.holds(value):
            self.report("E124", node, f"{what} must be {allowed.words}, not {value}")
            return None
        return int(value) if allowed.whole or (isinstance(node.value, str) and float(value).is_integer()) else value

    def values(self, node: Node | None, what: str) -> dict[str, Any]:
        """Return a mapping of plain values (`args`, `set_ctx`)."""
        if node is None:
            return {}
        return {k: v.plain() for k, v in self.mapping(node, what).items()}

    def no_effect(self, node: Node, keys: Iterable[str], what: str) -> None:
        """Report that declared placeholders have no effect (resolution 30)."""
        for key in keys if isinstance(node.value, dict) else ():
            if key in node.value:
                self._no_effect(node, key, f'"{key}" in {what}')

    def _no_effect(self, node: Node, key: str, label: str) -> None:
        self.report("W403", (node, key), f"{label} is accepted but has no effect", "", "note")


_READ: Final[dict[type, Callable[[Reader, Node, str, Any], Any]]] = {
    Text: lambda r, node, what, _: r.text(node, what),
    Prose: lambda r, node, what, _: r.prose(node, what),
    Name: lambda r, node, _, of: r.name(node, of.of),
    Choice: lambda r, node, what, of: r.choice(node, of.words, what),
    Flag: Reader.flag,
    Condition: lambda r, node, what, _: r.condition(node, what),
    Range: Reader.number,
}
"""Readers of single values, by type."""
