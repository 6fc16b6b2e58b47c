"""Builds the outline of JSON text of any size and formatting while it is written, in constant memory.

An item is parsed as soon as it is complete, which finds its end. An item that is longer than `AT_ONCE` bytes is entered: its
items are parsed one by one. Invalid text, such as JSON with a duplicate key, has no outline and is read whole, which reports the
error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from json.scanner import make_scanner
from typing import Any, Final, NoReturn, cast

from noetl_core.values.outlines.building import stored_form
from noetl_core.values.outlines.form import BLOCK, DEPTH, MOST_KEY_BYTES, OUTLINED, VERSION_OF_TEXT, digest_of
from noetl_core.values.strict_json import SUSPECT, parsed

AT_ONCE: Final = 1024 * 1024
"""The longest item that is parsed at once (bytes)."""
MOST_TEXT: Final = 256 * AT_ONCE
"""The largest text with an outline, because building one costs as much as parsing the text twice."""
SHOWN_KEYS: Final = 20
MOST_HELD: Final = 8 * AT_ONCE
"""The largest string, or item below the deepest level, in a text with an outline."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_KEY: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_CUT_NUMBER: Final = re.compile(r"\.|[eE][+-]?")
"""The text after an integer that may be part of a longer number."""


def _refuse(_: str) -> NoReturn:
    raise ValueError("it is not a JSON number")


_scan: Final = cast("Callable[[str, int], tuple[Any, int]]", make_scanner(cast(Any, json.JSONDecoder(parse_constant=_refuse))))


class _NoOutline(Exception):
    """The text can have no outline."""


class _NotYet(Exception):
    """More text is needed."""


_Step = Callable[[], "_Step | None"]


class _Open:
    """An unfinished container. Positions count from the beginning of the text."""

    def __init__(self, start: int, is_map: bool) -> None:
        self.start, self.is_map = start, is_map
        self.at = start + 1
        """The start of the current block."""
        self.comma = start
        """The position of the bracket or comma before the next item."""
        self.empty = True
        self.count, self.keys = 0, list[str]()
        self.known: set[str] = set()
        self.blocks: list[list[Any]] = []
        self.inner: dict[str, Any] | None = None
        """The outline of the item that has just ended."""


class JsonOutline:
    """Builds the outline of JSON text; `write` must get every piece in order."""

    def __init__(self, block: int | None = None, at_once: int | None = None) -> None:
        self._most = BLOCK if block is None else block
        self._at_once = AT_ONCE if at_once is None else at_once
        self._text, self._base = "", 0
        """The buffered text, a character for each byte, and its position."""
        self._size, self._wanted = 0, self._at_once
        self._open: list[_Open] = []
        self._root: dict[str, Any] | None = None
        self._steps: Iterator[None] | None = self._through()
        self._keys = MOST_KEY_BYTES
        self._all = False

    def write(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MOST_TEXT:
            self._text, self._steps = "", None
        if self._steps is None:
            return
        self._text += piece.decode("latin-1")
        if len(self._text) >= self._wanted:
            self._go_on()

    def finish(self, checksum: str, *, over: int | None = None) -> bytes | None:
        """Return the outline of the written text with the given checksum; None if it is too small, or cannot have one."""
        self._all = True
        self._go_on()
        self._text, self._steps = "", None
        small = self._size <= (OUTLINED if over is None else over)
        return None if small or self._root is None else stored_form(self._root, checksum, self._size, VERSION_OF_TEXT)

    def shape(self) -> dict[str, Any] | None:
        """Return the length of a list, or the first keys of a mapping, after everything was written; None if unknown."""
        if self._root is None:
            return None
        blocks = self._root["b"]
        if self._root["k"] == "list":
            return {"type": "list", "length": sum(block[0] for block in blocks)}
        return {"type": "object", "keys": list(islice((key for block in blocks for key in block[0]), SHOWN_KEYS))}

    def _go_on(self) -> None:
        """Parse the available text, and keep the incomplete rest."""
        try:
            if self._steps is not None:
                next(self._steps)
        except (StopIteration, _NoOutline, ValueError, RecursionError):
            self._text, self._steps = "", None
            return
        drop = max(0, self._open[-1].at - self._base) if self._open else 0
        self._text, self._base = self._text[drop:], self._base + drop
        if len(self._text) > 2 * MOST_HELD:
            self._text, self._steps = "", None
        self._wanted = len(self._text) + self._at_once // 2

    def _through(self) -> Iterator[None]:
        """Parse the text step by step; yield when more text is needed. An incomplete step changes nothing."""
        step: _Step | None = self._begin
        while step is not None:
            try:
                step = step()
            except _NotYet:
                if self._all:
                    raise _NoOutline from None
                yield

    # --- the text -------------------------------------------------------------------------------------------------------

    def _visible(self, place: int) -> tuple[str, int]:
        """Return the next character that is not white space, and its position. Raises `_NotYet`."""
        found = _SPACE.match(self._text, place - self._base)
        at = place - self._base if found is None else found.end()
        if at >= len(self._text):
            raise _NotYet
        return self._text[at], at + self._base

    def _begin(self) -> _Step:
        first, place = self._visible(0)
        if first not in "[{":
            raise _NoOutline
        self._open.append(_Open(place, first == "{"))
        return self._next

    def _next(self) -> _Step:
        """Take the next item of the innermost container, or its end."""
        into = self._open[-1]
        mark, place = self._visible(into.comma + 1)
        if into.empty and mark == "]}"[into.is_map]:
            return partial(self._end, into, place)
        key, start = self._key(into, place) if into.is_map else ("", place)
        end = self._end_of(start)
        if end is None:
            self._enter(into, key, start)
            return self._next
        self._item(into, key, end)
        return partial(self._after, into, end)

    def _after(self, into: _Open, place: int) -> _Step:
        """Take the comma or the end of the container after an item."""
        mark, at = self._visible(place)
        if mark not in (",", "]}"[into.is_map]):
            raise _NoOutline
        if mark != ",":
            return partial(self._end, into, at)
        if into.inner is not None:
            self._close(into, at)
        into.comma = at
        return self._next

    def _end(self, into: _Open, place: int) -> _Step | None:
        """End the container at `place`. Return None at the end of the text."""
        if into.count:
            self._close(into, place)
        if not into.blocks:
            raise _NoOutline
        node: dict[str, Any] = {"k": "map" if into.is_map else "list", "s": place + 1 - into.start, "b": into.blocks}
        if len(self._open) > 1:
            self._open.pop()
            outer = self._open[-1]
            outer.inner = {**node, "o": into.start - outer.at}
            return partial(self._after, outer, place + 1)
        into.at = place + 1
        self._nothing_but_space(place + 1)
        self._root = {**node, "o": into.start}
        return None

    def _key(self, into: _Open, place: int) -> tuple[str, int]:
        """Return a key and the position of its value."""
        found = _KEY.match(self._text, place - self._base)
        if found is None:
            if self._text[place - self._base] != '"':
                raise _NoOutline
            raise self._more(place)
        colon, at = self._visible(found.end() + self._base)
        if colon != ":":
            raise _NoOutline
        key: str = json.loads(found[0].encode("latin-1"))
        if key in into.known:
            raise _NoOutline
        return key, self._visible(at + 1)[1]

    def _end_of(self, start: int) -> int | None:
        """Return the end of the item at `start`; None for a large container, which must be entered. Raises `_NotYet`."""
        at = start - self._base
        try:
            end = _scan(self._text, at)[1]
        except (StopIteration, json.JSONDecodeError):
            end = len(self._text)  # not whole yet, or no JSON
        if end < len(self._text) and not _CUT_NUMBER.fullmatch(self._text, end):  # a number that ends with the text may go on
            return end + self._base
        if len(self._text) - at >= self._at_once and self._text[at] in "[{" and len(self._open) < DEPTH:
            return None
        raise self._more(start)

    def _more(self, since: int) -> Exception:
        """Return the exception for an incomplete item that begins at `since`."""
        return _NoOutline() if self._base + len(self._text) - since > MOST_HELD else _NotYet()

    # --- blocks ---------------------------------------------------------------------------------------------------------

    def _item(self, into: _Open, key: str, end: int) -> None:
        if into.count and end - into.at > self._most:
            self._close(into, into.comma)
        self._count(into, key)

    def _count(self, into: _Open, key: str) -> None:
        into.empty = False
        into.count += 1
        if into.is_map:
            into.keys.append(key)
            into.known.add(key)
            self._keys -= len(key) + 3
            if self._keys < 0:
                raise _NoOutline

    def _enter(self, into: _Open, key: str, start: int) -> None:
        """Enter an item that is a large container, which becomes a block of its own."""
        if into.count:
            self._close(into, into.comma)
        self._count(into, key)
        self._open.append(_Open(start, self._text[start - self._base] == "{"))

    def _nothing_but_space(self, place: int) -> None:
        try:
            self._visible(place)
        except _NotYet:
            if self._all:
                return
            raise
        raise _NoOutline

    def _close(self, into: _Open, end: int) -> None:
        """End a block before `end`, the position of a comma or bracket."""
        what: Any = into.inner
        if what is None:
            text = self._text[into.at - self._base : end - self._base].encode("latin-1")
            text.decode()
            if SUSPECT.search(text):
                parsed(b"{%b}" % text if into.is_map else b"[%b]" % text)
            what = digest_of(text)
        into.blocks.append([into.keys if into.is_map else into.count, end - into.at, what])
        into.at, into.count, into.keys, into.inner = end + 1, 0, [], None
