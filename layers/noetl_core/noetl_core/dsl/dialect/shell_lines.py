"""`cmds` of `shell`: one script, in which no value is read as code.

Each expression becomes a variable. Single quotes around it are closed before it and opened again after it. In a here-document
whose word is quoted the shell reads no variables, so an expression there is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import Final

from noetl_core.dsl.templates import GO
from noetl_core.values.frozen import mutable

EXPRESSION: Final = re.compile(rf"(?!{GO})\{{\{{.*?\}}\}}", re.DOTALL)
_HERE: Final = re.compile(r"<<-?[ \t]*(?:(['\"])(\w+)\1|\\?(\w+))")


class NoVariable(Exception):
    """An expression is at a place where a shell reads no variables. Who acts: the author."""


@mutable
class _Lines:
    """Reads a script from its beginning. `quotes` are the quotes and substitutions around the current place."""

    text: str
    variable: Callable[[str], str]
    at: int = 0
    out: list[str] = field(default_factory=list)
    quotes: list[str] = field(default_factory=list)
    here: list[tuple[str, bool]] = field(default_factory=list)
    """Here-documents that begin after this line: their word, and whether variables are read in them."""

    def script(self) -> str:
        while self.at < len(self.text):
            self._next()
        return "".join(self.out)

    def _next(self) -> None:
        inside = self.quotes[-1] if self.quotes else ""
        found = EXPRESSION.match(self.text, self.at)
        char = self.text[self.at]
        if found is not None:
            name = self.variable(found[0])
            self._take(len(found[0]), f"""'"{name}"'""" if inside == "'" else name)
        elif inside == "'":
            self._take(1)
            if char == "'":
                self.quotes.pop()
        elif char == "\\":
            self._take(2)
        elif char == '"' or (char == "'" and inside != '"'):
            self._take(1)
            self._quote(char, inside)
        elif self.text.startswith("$(", self.at) and not self.text.startswith("$((", self.at):
            self._take(2)
            self.quotes.append(")")
        elif char == ")" and inside == ")":
            self._take(1)
            self.quotes.pop()
        elif char == "`":
            raise NoVariable
        elif char == "#" and inside != '"' and (self.at == 0 or self.text[self.at - 1] in " \t\n;"):
            self._comment()
        elif char == "\n":
            self._take(1)
            self._documents()
        elif inside != '"' and (document := _HERE.match(self.text, self.at)) is not None and self._is_document():
            self.here.append((document[2] or document[3], document[1] is None and "\\" not in document[0]))
            self._take(len(document[0]))
        else:
            self._take(1)

    def _is_document(self) -> bool:
        """Return whether `<<` begins a here-document: `<<<` is a text, and arithmetic shifts."""
        return not self.text.startswith("<<<", self.at) and self.text[self.at - 1 : self.at] != "<"

    def _quote(self, char: str, inside: str) -> None:
        if inside == char:
            self.quotes.pop()
        else:
            self.quotes.append(char)

    def _comment(self) -> None:
        """Copy a comment: nothing in it is read, so an expression in it becomes its text without braces."""
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        self.out.append(self.text[self.at : end].replace("{{", "").replace("}}", ""))
        self.at = end

    def _documents(self) -> None:
        """Copy the here-documents that begin here. Raises `NoVariable`."""
        for word, reads in self.here:
            found = re.compile(rf"^\t*{word}$", re.MULTILINE).search(self.text, self.at)
            body = self.text[self.at : found.end() if found is not None else len(self.text)]
            if EXPRESSION.search(body) and not reads:
                raise NoVariable
            self._take(len(body), EXPRESSION.sub(lambda one: self.variable(one[0]), body))
        self.here.clear()

    def _take(self, count: int, text: str | None = None) -> None:
        self.out.append(self.text[self.at : self.at + count] if text is None else text)
        self.at += count


def with_variables(text: str, variable: Callable[[str], str]) -> str:
    """Return a script with `variable` of each expression in its place. Raises `NoVariable`."""
    return _Lines(text, variable).script() if EXPRESSION.search(text) else text
