"""Reads templates in the text of Python programs. Such text is not a template itself: outside of strings, `{{ expression }}`
becomes an argument.

Python itself cannot have two opening braces in a row: they would be a set in a set. Within a string they may be text;
lint reports them there (W523).
"""

from __future__ import annotations

import re
from io import StringIO
from tokenize import COMMENT, STRING, TokenError, TokenInfo, generate_tokens, tok_name
from typing import Final

from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.reading.load import Node

_EXPRESSION: Final = re.compile(r"\{\{-?(.*?)-?\}\}(?!\})")
_AS_TEXT: Final = re.compile(r"\|\s*tojson\s*\Z")
_PATH: Final = re.compile(r"(?:\w+\.)*([A-Za-z_]\w*)\Z")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def rewrite_templates(e: Edits, task: Node, key: str) -> None:
    """Give a program the values of the templates in its text as arguments; `key` is the name of the arguments, `args` or
    `input`."""
    code: str = task.value["code"].value
    if "{{" not in code:
        return
    plain = _without_strings(code)
    places = list(_EXPRESSION.finditer(plain))
    if not places:
        return
    args = e.below(task, key, (task, "code"))
    if args is None:
        return
    taken = {*_WORD.findall(_EXPRESSION.sub("", plain)), *args.value}
    names: dict[str, str] = {}
    out, at = [], 0
    for place in places:
        expression = _AS_TEXT.sub("", code[place.start(1) : place.end(1)].strip()).strip()
        if expression not in names:
            names[expression] = _name(expression, taken)
            taken.add(names[expression])
            e.put(args, names[expression], f"{{{{ {expression} }}}}", (task, "code"))
        out += [code[at : place.start()], names[expression]]
        at = place.end()
    node = task.value["code"]
    program = Node("".join((*out, code[at:])), node.line, node.col, node.path)
    program.rewritten = True  # a node of its own: text of programs is not compiled as a template
    e.put(task, "code", program)


def _name(expression: str, taken: set[str]) -> str:
    path = _PATH.match(expression)
    if path is not None and path[1] not in taken:
        return path[1]
    return next(name for n in range(1, 1000) if (name := f"value_{n}") not in taken)


def _without_strings(code: str) -> str:
    """Return the text with blanks in place of strings and comments; nothing if these cannot be recognised."""
    lines = code.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    out, begun = list(code), list[TokenInfo]()
    try:
        for token in generate_tokens(StringIO(code).readline):
            if tok_name[token.type] in ("FSTRING_START", "TSTRING_START"):
                begun.append(token)
            ended = begun.pop() if tok_name[token.type] in ("FSTRING_END", "TSTRING_END") else token
            if token.type in (STRING, COMMENT) or ended is not token:
                start, end = starts[ended.start[0] - 1] + ended.start[1], starts[token.end[0] - 1] + token.end[1]
                out[start:end] = [char if char == "\n" else " " for char in out[start:end]]
    except (TokenError, SyntaxError):
        return ""
    return "".join(out)
