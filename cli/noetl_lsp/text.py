"""A text with its lines, and positions in it as the protocol counts them: from 0, in the units that client and server agreed on,
which are those of UTF-16 unless the client asks for others."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

Position = tuple[int, int]
"""Line and column, from 0. The column counts units of the encoding: in UTF-16, an emoji is two of them."""
Span = tuple[int, int]
"""Offsets of the first character and of the one after the last."""

LONGEST_WORD: Final = 256
"""Characters of a word on each side of the cursor."""
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


_BYTES: Final = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
"""Bytes of a unit of each encoding."""


class Text:
    """An immutable text. Offsets count characters, as Python does."""

    __slots__ = ("_bytes", "_codec", "_starts", "source")

    def __init__(self, source: str, encoding: str = "utf-16") -> None:
        self.source = source
        self._bytes = _BYTES.get(encoding, 2)
        self._codec = encoding if self._bytes == 1 else f"utf-{self._bytes * 8}-le"
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(source))]

    def line(self, number: int) -> Span:
        """Return the span of a line, from 0, without its end. Numbers beyond the text mean its last line."""
        number = min(max(number, 0), len(self._starts) - 1)
        start = self._starts[number]
        if number + 1 == len(self._starts):
            return start, len(self.source)
        end = self._starts[number + 1] - 1
        return start, end - 1 if end > start and self.source[end - 1 : end + 1] == "\r\n" else end

    def line_of(self, offset: int) -> int:
        """Return the number of the line, from 0, at an offset."""
        return bisect_right(self._starts, offset) - 1

    def offset(self, position: Position) -> int:
        """Return the offset of a position. Beyond the end of its line it is that end, beyond the text the end of the text."""
        if position[0] >= len(self._starts):
            return len(self.source)
        start, end = self.line(position[0])
        if self.source.isascii():
            return min(start + max(position[1], 0), end)
        units, at = position[1], start
        while at < end and units > 0:
            units -= self._units(self.source[at])
            at += 1
        return at

    def position(self, offset: int) -> Position:
        """Return the position of an offset."""
        line = self.line_of(offset)
        before = self.source[self._starts[line] : offset]
        return line, self._units(before)

    def _units(self, part: str) -> int:
        return len(part) if part.isascii() else len(part.encode(self._codec, "surrogatepass")) // self._bytes

    def place(self, line: int, col: int) -> int:
        """Return the offset of a line and column of a diagnostic: both from 1, in characters."""
        start, end = self.line(line - 1)
        return min(start + max(col - 1, 0), end)

    def word(self, offset: int) -> Span:
        """Return the span of the word around an offset; an empty one if there is none."""
        return word_start(self.source, offset), word_end(self.source, offset)


def word_start(text: str, offset: int, signs: str = "_") -> int:
    """Return where the word begins that ends at an offset: letters, digits and `signs`, at most `LONGEST_WORD` of them."""
    least = max(offset - LONGEST_WORD, 0)
    while offset > least and (text[offset - 1].isalnum() or text[offset - 1] in signs):
        offset -= 1
    return offset


def word_end(text: str, offset: int, signs: str = "_") -> int:
    """Return where the word ends that begins at an offset."""
    most = min(offset + LONGEST_WORD, len(text))
    while offset < most and (text[offset].isalnum() or text[offset] in signs):
        offset += 1
    return offset
