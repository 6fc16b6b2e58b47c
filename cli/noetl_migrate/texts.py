"""Expressions as text: names are replaced where they are read, and conditions are split by the event that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from jinja2 import nodes

from noetl_core.dsl.dialect.conditions import EXPRESSION
from noetl_core.dsl.templates import without_others
from noetl_core.expr import Read, compile_text, is_template
from noetl_core.expr.compiled import ENVIRONMENT
from noetl_migrate.tree import Scalar

Replace = Callable[[Read, str], tuple[str, str] | None]
"""`(read, text from the read on) -> (the text to replace, its replacement)`; None leaves it."""

_OPEN: Final = frozenset("([{")
_CLOSE: Final = frozenset(")]}")
_DEFINED: Final = re.compile(r"(\w+)(\s+is\s+(not\s+)?defined)\b")
_UNKNOWN: Final = object()
_WORDS: Final[dict[bool | None, str]] = {None: "none", True: "true", False: "false"}


def expression(text: str) -> str | None:
    """Return the expression of a text that is one `{{ expression }}`."""
    if not compile_text(text).is_expression:
        return None
    found = EXPRESSION.match(text)
    return None if found is None else " ".join(found[1].split())


def braced(expression: str) -> str:
    return f"{{{{ {expression} }}}}"


def reads(text: str) -> tuple[Read, ...]:
    """Return the reads of a template; none for other text, and none of templates of other programs in lines of shell code."""
    return compile_text(without_others(text)).reads if is_template(text) else ()


def edits(text: str, replace: Replace) -> list[tuple[int, int, str]]:
    """Yield where `replace` changes a template: `(start, end, new text)`, in order."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    out: dict[int, tuple[int, int, str]] = {}
    for read in reads(text):
        at = starts[read.line - 1] + read.column - 1
        change = replace(read, text[at:])
        if change is not None and change[0] != change[1]:
            out[at] = (at, at + len(change[0]), change[1])
    return [out[at] for at in sorted(out)]


def replaced(text: str, replace: Replace) -> str:
    """Return the template with `replace` applied to every read."""
    return _applied(text, edits(text, replace))


def in_expression(text: str, replace: Replace) -> str:
    """Like `replaced`, for an expression without braces."""
    found = expression(replaced(braced(text), replace))
    assert found is not None
    return found


def edit(scalar: Scalar, replace: Replace) -> None:
    """Apply `replace` to a scalar; its quotes and lines are kept where possible."""
    if not isinstance(scalar.value, str) or not is_template(scalar.value):
        return
    changes = edits(scalar.value, replace)
    if changes:
        new = _applied(scalar.value, changes)
        scalar.text = _edited_text(scalar, changes)
        scalar.value = new
        scalar.changed = True
        if scalar.text is None:
            scalar.style = None


def _applied(text: str, changes: list[tuple[int, int, str]]) -> str:
    for start, end, new in reversed(changes):
        text = text[:start] + new + text[end:]
    return text


def _edited_text(scalar: Scalar, changes: list[tuple[int, int, str]]) -> str | None:
    """Return the source text with the changes; None if it contains the characters in another form."""
    text, value = scalar.text, scalar.value
    if text is None:
        return None
    begin = text.find("\n") + 1 if scalar.style in ("|", ">") else 1 if scalar.style else 0
    solid = [i for i in range(begin, len(text) - (1 if scalar.style in ("'", '"') else 0)) if not text[i].isspace()]
    if [text[i] for i in solid] != [c for c in value if not c.isspace()]:
        return None  # escapes
    order: dict[int, int] = {}
    for offset, character in enumerate(value):
        if not character.isspace():
            order[offset] = solid[len(order)]
    for start, end, new in reversed(changes):
        if value[end - 1].isspace() or (scalar.style and scalar.style in "'\"" and ("\\" in new or scalar.style in new)):
            return None
        text = text[: order[start]] + new + text[order[end - 1] + 1 :]
    return text


# --- structure ----------------------------------------------------------------------------------------------------------


def split(text: str, word: str) -> list[str]:
    """Return the operands of `and` or `or` at the top of an expression; the whole expression when there is none."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        character = text[at]
        if character in "'\"":
            at = _string_end(text, at)
            continue
        depth += (character in _OPEN) - (character in _CLOSE)
        if depth == 0 and character.isalpha() and (at == 0 or not _wordy(text[at - 1])):
            end = at
            while end < len(text) and _wordy(text[end]):
                end += 1
            found = text[at:end]
            if found == "if":
                return [text.strip()]
            if found == word:
                parts.append(text[start:at].strip())
                start = end
            at = end
            continue
        at += 1
    return [*parts, text[start:].strip()]


def _wordy(character: str) -> bool:
    return character.isalnum() or character in "_."


def _string_end(text: str, at: int) -> int:
    end = at + 1
    while end < len(text) and text[end] != text[at]:
        end += 2 if text[end] == "\\" else 1
    return end + 1


def _wrapped(text: str) -> str | None:
    """Return the content of a pair of brackets around the whole expression."""
    if not (text.startswith("(") and text.endswith(")")):
        return None
    depth, at = 0, 0
    while at < len(text):
        if text[at] in "'\"":
            at = _string_end(text, at)
            continue
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        at += 1
        if depth == 0:
            return text[1:-1].strip() if at == len(text) else None
    return None


def alone(text: str) -> str:
    """Return the expression as an operand: in brackets when `and`, `or` or `if` is at its top."""
    plain = len(split(text, "or")) == 1 and len(split(text, "and")) == 1 and not re.search(r"\bif\b", text)
    return text if plain or _wrapped(text) is not None else f"({text})"


def negated(text: str) -> str:
    return f"not ({text})"


def all_of(parts: list[str]) -> str:
    parts = [p for p in parts if p != "true"]
    if not parts:
        return "true"
    return parts[0] if len(parts) == 1 else " and ".join(_operand(p) for p in parts)


def _operand(text: str) -> str:
    return f"({text})" if len(split(text, "or")) > 1 or (re.search(r"\bif\b", text) and split(text, "and") == [text]) else text


def residual(text: str, event: str, known: Mapping[str, bool]) -> str | None:
    """Return the rest of a condition when `event.name` is `event`; None if it cannot hold, `true` if it holds.

    `known`: names that are or are not defined at that event.
    """
    truth = _truth(_parsed(text), event, known)
    if truth is not None:
        return "true" if truth else None
    for word in ("or", "and"):
        parts = split(text, word)
        if len(parts) > 1:
            left = [p for part in parts if (p := residual(part, event, known)) is not None]
            return all_of(left) if word == "and" else " or ".join(left)
    inner = _wrapped(text)
    if inner is not None:
        left_over = residual(inner, event, known)
        return None if left_over is None else alone(left_over)
    return in_expression(text, lambda read, _: _named_event(read, event))


def _named_event(read: Read, event: str) -> tuple[str, str] | None:
    return ("event.name", f"'{event}'") if read.path[:2] == ("event", "name") else None


def _parsed(text: str) -> nodes.Expr:
    output = ENVIRONMENT.parse(braced(text)).body[0]
    assert isinstance(output, nodes.Output)
    found = output.nodes[0]
    assert isinstance(found, nodes.Expr)
    return found


def _truth(node: nodes.Node, event: str, known: Mapping[str, bool]) -> bool | None:
    """Return the truth of a condition; None when it depends on more than the event."""
    match node:
        case nodes.And():
            sides = [_truth(node.left, event, known), _truth(node.right, event, known)]
            return False if False in sides else True if sides == [True, True] else None
        case nodes.Or():
            sides = [_truth(node.left, event, known), _truth(node.right, event, known)]
            return True if True in sides else False if sides == [False, False] else None
        case nodes.Not():
            inner = _truth(node.node, event, known)
            return None if inner is None else not inner
        case nodes.Test(name="defined" | "undefined") if isinstance(node.node, nodes.Name) and node.node.name in known:
            return known[node.node.name] == (node.name == "defined")
        case nodes.Compare():
            return _compared(node, event)
        case nodes.Const() if isinstance(node.value, bool):
            return node.value
    return None


def _compared(node: nodes.Compare, event: str) -> bool | None:
    values = [_constant(part, event) for part in (node.expr, *(o.expr for o in node.ops))]
    if any(v is _UNKNOWN for v in values) or len(node.ops) != 1:
        return None
    left, right = values
    op = node.ops[0].op
    if op in ("eq", "ne"):
        return bool(left == right) == (op == "eq")
    if op in ("in", "notin") and isinstance(right, list):
        return (left in right) == (op == "in")
    return None


def _constant(node: nodes.Node, event: str) -> Any:
    match node:
        case nodes.Const():
            return node.value
        case nodes.Getattr(attr="name") if isinstance(node.node, nodes.Name) and node.node.name == "event":
            return event
        case nodes.List() | nodes.Tuple():
            items = [_constant(item, event) for item in node.items]
            return _UNKNOWN if any(i is _UNKNOWN for i in items) else items
    return _UNKNOWN


def events_named(text: str) -> Iterator[str]:
    """Return the text constants in a condition that look like event names."""
    for found in _parsed(text).find_all(nodes.Const):
        if isinstance(found.value, str) and re.fullmatch(r"[a-z]+\.[a-z_]+", found.value):
            yield found.value
    root = _parsed(text)
    if isinstance(root, nodes.Const) and isinstance(root.value, str):
        yield root.value


# --- values -------------------------------------------------------------------------------------------------------------


class NoExpression(Exception):
    """The value contains statements, which have no form as an expression."""


def as_expression(value: Any) -> str:
    """Return a value with templates as one expression. Raises `NoExpression`."""
    if isinstance(value, str):
        return _text_expression(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(str(k))}: {as_expression(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(as_expression(v) for v in value) + "]"
    return _WORDS[value] if value is None or isinstance(value, bool) else repr(value)


def _text_expression(text: str) -> str:
    if not is_template(text):
        return _literal(text)
    whole = expression(text)
    if whole is not None:
        return whole
    output = ENVIRONMENT.parse(text).body
    if len(output) != 1 or not isinstance(output[0], nodes.Output) or "{%" in text or "{#" in text:
        raise NoExpression
    parts = []
    for part in re.split(r"(\{\{.*?\}\})", text, flags=re.DOTALL):
        if part.startswith("{{"):
            inner = expression(part)
            if inner is None:
                raise NoExpression
            parts.append(alone(inner) if "|" not in inner and " " not in inner else f"({inner})")
        elif part:
            parts.append(_literal(part))
    return " ~ ".join(parts)


def _literal(text: str) -> str:
    if "'" in text and '"' not in text:
        return '"' + text.replace("\\", "\\\\").replace("\n", "\\n") + '"'
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def defined_test(text: str) -> tuple[str, bool] | None:
    """Return the parts of `name is [not] defined` at the beginning of a text: the text, and whether it asks for defined."""
    found = _DEFINED.match(text)
    return None if found is None else (found[0], found[3] is None)
