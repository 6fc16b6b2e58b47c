"""Findings as spans of the text, and the edits that their hints propose."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from noetl_core.dsl.reading.diagnostics import MIGRATE, Diagnostic
from noetl_core.values.frozen import frozen
from noetl_lsp.navigation import Edit
from noetl_lsp.outline import chunk_at
from noetl_lsp.text import Span, Text

_MEANT: Final = re.compile(r"did you mean ['\"]([^'\"]+)['\"]\?")
_WRITE: Final = re.compile(r"(?:quote it: |write )(\"\{\{ .+ \}\}\"|\"[^\"]*\")\Z")
_TOKEN: Final = re.compile(r"[\w@/-]+(?:\.[\w-]+)*|[^\s\w]")
_WORDS: Final = re.compile(r"[\w-]+")
_SCALAR: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"|[^\s,{}\[\]#:]+")
_TRUTH: Final = "YAML 1.2: true or false"
REACH: Final = 300
"""Characters behind the place of a finding in which its word stands."""


@frozen
class Fix:
    """A change that resolves a finding."""

    title: str
    edits: tuple[Edit, ...]
    preferred: bool = False


def span_of(text: Text, found: Diagnostic) -> Span:
    """Return the span of a finding: the word or sign at its place."""
    start = text.place(found.line, found.col)
    _, line_end = text.line(text.line_of(start))
    token = _TOKEN.match(text.source, start, line_end)
    end = token.end() if token is not None else min(start + 1, line_end)
    return start, max(end, start)


def fixes(text: Text, found: Diagnostic) -> Iterator[Fix]:
    """Yield what may be done about a finding, the likeliest first."""
    start, _ = span_of(text, found)
    meant = _MEANT.search(found.hint)
    if meant is not None and (wrong := _wrong_word(text.source, start, found, meant[1])) is not None:
        yield Fix(f'Change it to "{meant[1]}"', (Edit(wrong, meant[1]),), preferred=True)
    written = _WRITE.search(found.hint)
    if written is not None and (scalar := _SCALAR.match(text.source, start)) is not None and found.code in ("E112", "E303"):
        if found.code == "E303":
            scalar_end = _plain_end(text, start)
            content = text.source[start:scalar_end].strip("'\"").strip()
            quoted = content.replace('"', "'")
            yield Fix("Write it as an expression", (Edit((start, scalar_end), f'"{{{{ {quoted} }}}}"'),), preferred=True)
        else:
            yield Fix("Quote it", (Edit(scalar.span(), written[1]),), preferred=True)
    if found.hint == _TRUTH and (scalar := _SCALAR.match(text.source, start)) is not None:
        word = "true" if scalar[0].strip("'\"").lower() in ("yes", "on", "true") else "false"
        yield Fix(f"Write {word}", (Edit(scalar.span(), word),), preferred=True)
    if found.code == "W401" and (scalar := _SCALAR.match(text.source, start)) is not None and scalar[0][0] not in "'\"":
        yield Fix("Quote it", (Edit(scalar.span(), f'"{scalar[0]}"'),))
    if found.code == "E102" and text.source[start : start + 1] == "\t":
        end = start + len(text.source[start:]) - len(text.source[start:].lstrip("\t"))
        yield Fix("Indent with spaces", (Edit((start, end), "  " * (end - start)),), preferred=True)
    if found.code[0] == "W" and found.code != "W518" and _takes_comment(text, start):
        yield Fix(f"Ignore {found.code} on this line", (_ignored(text, start, found.code),))


def needs_migration(found: Diagnostic) -> bool:
    """Return whether `noetl migrate` rewrites what a finding is about."""
    return found.hint.endswith(MIGRATE)


def _wrong_word(source: str, start: int, found: Diagnostic, meant: str) -> Span | None:
    """Return the word that a finding is about: the one most like the proposed word of those that its message names."""
    message = set(_WORDS.findall(found.message))
    line = source.rfind("\n", 0, start) + 1
    for begin, end in ((start, start + REACH), (line, start)):  # the place of a call is behind its name
        words = [word for word in _WORDS.finditer(source, begin, end) if word[0] != meant and word[0] in message]
        if words:
            return max(words, key=lambda word: difflib.SequenceMatcher(None, word[0], meant).ratio()).span()
    return None


def _plain_end(text: Text, start: int) -> int:
    """Return the end of a text without a comment, in one line."""
    _, end = text.line(text.line_of(start))
    row = text.source[start:end]
    quoted = re.match(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"", row)
    if quoted is not None:
        return start + quoted.end()
    row = row.partition(" #")[0]
    opened = text.source.rfind("\n", 0, start) + 1
    if "{" in text.source[opened:start]:  # in braces
        row = re.split(r"[,}]", row, maxsplit=1)[0]
    return start + len(row.rstrip())


def _takes_comment(text: Text, start: int) -> bool:
    """Return whether a comment may stand at the end of the line: it is not within a text of several lines."""
    chunk = chunk_at(text.source, start)
    end = text.line(text.line_of(start))[1]
    spots = [] if chunk is None else chunk.tree.spots
    return not any(spot.start + chunk.start < end < spot.end + chunk.start for spot in spots if chunk is not None)


def _ignored(text: Text, start: int, code: str) -> Edit:
    begin, end = text.line(text.line_of(start))
    row = text.source[begin:end]
    known = re.search(r"#\s*noetl:\s*ignore\b[^#]*\Z", row)
    if known is not None:
        return Edit((begin + len(row.rstrip()), end), f", {code}")
    return Edit((begin + len(row.rstrip()), end), f"  # noetl: ignore {code}")
