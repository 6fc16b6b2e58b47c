"""The Jinja2 lexer with columns, and a fast path for simple templates.

Validation reads thousands of templates, and Jinja2 tries all its rules at every token. So text on one line that contains only
`{{ ... }}` is read by one regular expression. For anything else the fast path gives up and Jinja2 reads the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from jinja2.exceptions import TemplateSyntaxError as JinjaSyntaxError
from jinja2.lexer import Lexer, Token, TokenStream, operators

_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_LONG_WAY: Final = re.compile(r"[\r\n]|\{[%#]|\{\{[-+]")
"""Line ends, statements, comments and white-space control."""

_TOKEN: Final = re.compile(
    r"""[ \t]*(?:([A-Za-z_]\w*)|('[^'\\]*'|"[^"\\]*")|(0|[1-9][0-9]{0,17})(?![\w.])|(//|\*\*|[=!<>]=|[-+*/%~<>.,:|=()\[\]{};]))"""
)
_SPACE: Final = re.compile(r"[ \t]*")
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}


class Line(int):
    """A line number that also has a column (both from 1). Tokens and nodes of Jinja2 carry it as their line number."""

    column: int

    @classmethod
    def at(cls, line: int, column: int) -> Line:
        numbered = cls(line)
        numbered.column = column
        return numbered


class PositionLexer(Lexer):
    """The Jinja2 lexer whose line numbers are `Line`s."""

    def tokeniter(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> Iterator[tuple[int, str, str]]:
        text = _NEWLINE.sub("\n", source)
        # Places of shortened line ends, so that literal text keeps its own (Jinja2 would rewrite it to line feeds).
        shortened = [m.start() - i for i, m in enumerate(re.finditer("\r\n", source))] if "\r" in source else []
        position = line = line_start = 0

        def here(offset: int) -> Line:
            nonlocal line, line_start
            while (newline := text.find("\n", line_start, offset)) != -1:
                line, line_start = line + 1, newline + 1
            return Line.at(line + 1, offset - line_start + 1)

        def original(offset: int) -> int:
            return offset + bisect_left(shortened, offset)

        try:
            for _, token, value in super().tokeniter(source, name, filename, state):
                start = text.find(value, position)
                start = position if start < 0 else start
                position = start + len(value)
                data = source[original(start) : original(position)] if token == "data" and "\r" in source else value
                yield here(start), token, data
        except JinjaSyntaxError as error:
            if not isinstance(error.lineno, Line):
                while position < len(text) and text[position].isspace():
                    position += 1
                error.lineno = here(position)
            raise

    def _normalize_newlines(self, value: str) -> str:
        return value

    def wrap(
        self, stream: Iterable[tuple[int, str, str]], name: str | None = None, filename: str | None = None
    ) -> Iterator[Token]:
        line: int = Line.at(1, 1)

        def noted() -> Iterator[tuple[int, str, str]]:
            nonlocal line
            for item in stream:
                line = item[0]
                yield item

        try:
            yield from super().wrap(noted(), name, filename)
        except ValueError as error:  # a whole number of thousands of digits
            raise JinjaSyntaxError(str(error), line, name, filename) from None

    def tokenize(
        self, source: str, name: str | None = None, filename: str | None = None, state: str | None = None
    ) -> TokenStream:
        tokens = None if state or _LONG_WAY.search(source) else tokens_of_line(source)
        if tokens is None:
            return super().tokenize(source, name, filename, state)
        return TokenStream(tokens, name, filename)


def tokens_of_line(source: str) -> list[Token] | None:
    """Return the tokens of a text on one line; None when it contains more than names, plain text, whole numbers and
    operators."""
    tokens: list[Token] = []
    at = 0
    while (begin := source.find("{{", at)) >= 0:
        if begin > at:
            tokens.append(Token(Line.at(1, at + 1), "data", source[at:begin]))
        tokens.append(Token(Line.at(1, begin + 1), "variable_begin", "{{"))
        inside = _expression(source, begin + 2, tokens)
        if inside is None:
            return None
        at = inside
    if at < len(source):
        tokens.append(Token(Line.at(1, at + 1), "data", source[at:]))
    return tokens


def _expression(source: str, at: int, tokens: list[Token]) -> int | None:
    """Append the tokens of the expression that begins at `at`, with its end; return the offset after it."""
    open_brackets: list[str] = []
    while True:
        if not open_brackets:
            space = _SPACE.match(source, at)
            end = at if space is None else space.end()
            if source.startswith("}}", end):
                tokens.append(Token(Line.at(1, end + 1), "variable_end", "}}"))
                return end + 2
        found = _TOKEN.match(source, at)
        if found is None:
            return None
        group = found.lastindex or 0
        text = found[group]
        line = Line.at(1, found.start(group) + 1)
        at = found.end()
        if group == 1:
            if not text.isascii():
                return None
            tokens.append(Token(line, "name", text))
        elif group == 2:
            tokens.append(Token(line, "string", text[1:-1]))
        elif group == 3:
            tokens.append(Token(line, "integer", int(text)))  # type: ignore[arg-type]  # like Jinja2
        else:
            if text in _CLOSES:
                open_brackets.append(_CLOSES[text])
            elif text in ")]}":
                if not open_brackets or open_brackets.pop() != text:
                    return None
            elif text == "-" and source.startswith("}}", at):
                return None
            tokens.append(Token(line, operators[text], text))
