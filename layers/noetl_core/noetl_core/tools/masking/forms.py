"""The forms that a secret may take in the data of tools, and the search for one, or a large part of it, in a text."""

from __future__ import annotations

import base64
import codecs
import html
import json
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote, quote_plus

from noetl_core.values.frozen import frozen

LONG: Final = 8
"""From this length on, a text is found in either letter case, and in part."""


def lowered(text: str) -> str:
    """Return `text` in lower case, character by character, so that positions stay the same."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c if len(low := c.lower()) != 1 else low for c in text)


class Shape:
    """One form of a secret, in lower case. With `parts`, a piece of it counts if it has half its length and `LONG` characters."""

    __slots__ = ("_anchors", "_form", "_least", "blocks", "length")

    def __init__(self, form: str, *, parts: bool) -> None:
        self._form, self.length = form, len(form)
        self._least = max(LONG, len(form) // 2) if parts else len(form)
        block = self._least // 2 if parts else len(form)  # every piece that counts contains one of these blocks
        self._anchors = [(at, form[at : at + block]) for at in range(0, len(form) - block + 1, block)]
        self.blocks = [block for _, block in self._anchors]
        """Every text with a piece that counts contains one of them."""

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of `text` (in lower case) that count."""
        form = self._form
        for at, block in self._anchors:
            found = text.find(block)
            while found >= 0:
                begin = found - alike(text, found, form, at, backwards=True)
                end = found + len(block)
                end += alike(text, end, form, at + len(block))
                if end - begin >= self._least:
                    yield begin, end
                found = text.find(block, max(end, found + 1) if end - begin >= self._least else found + 1)


def alike(text: str, at: int, form: str, first: int, *, backwards: bool = False) -> int:
    """Return how many characters of `text` from `at` on (or before) equal those of `form` from `first` on. Compares in strides,
    because secrets may be large."""
    left = min(at, first) if backwards else min(len(text) - at, len(form) - first)
    same, stride, grows = 0, 64, True
    while same < left:
        stride = min(stride, left - same)
        one, other = (at - same - stride, first - same - stride) if backwards else (at + same, first + same)
        if text[one : one + stride] == form[other : other + stride]:
            same += stride
            stride = stride * 2 if grows else max(1, stride // 2)
        elif stride == 1:
            break
        else:
            grows, stride = False, stride // 2
    return same


@frozen
class Shapes:
    """The forms of a text: parts of `broken` forms count, too; `whole` forms count only if complete."""

    broken: Sequence[str]
    whole: Sequence[str]


def shapes_of(text: str) -> Shapes:
    """Return `text` and the forms that tools turn it into. The caller handles letter case."""
    raw = text.encode("utf-8", "surrogatepass")
    whole = [text[::-1], quote(raw, safe=""), quote_plus(raw), html.escape(text), codecs.encode(text, "rot13"), raw.hex(":")]
    whole += [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], text.encode("unicode_escape").decode()]
    whole += [text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")]  # as people escape it
    alone = base64.b64encode(raw).decode().rstrip("=")  # its inner part may be a word, which counts only if nothing is beside it
    whole += [base64.b32encode(raw).decode().rstrip("="), alone, alone.translate(_URLSAFE)]
    if len(raw) < LONG:
        return Shapes([text, raw.hex()], whole)
    encoded = [_inner(base64.b64encode(bytes(n) + raw).decode(), n, len(raw)) for n in range(3)]
    return Shapes([text, raw.hex(), *encoded], [*whole, *(one.translate(_URLSAFE) for one in encoded)])


def basic(user: str, password: str) -> str:
    """Return the text of an `Authorization: Basic` header."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


_URLSAFE: Final = str.maketrans("+/", "-_")


def _inner(encoded: str, before: int, size: int) -> str:
    """Return the characters of base64 that only the secret determines, when its `size` bytes follow `before` others in a
    longer text."""
    return encoded[-(-before * 8 // 6) : (before + size) * 8 // 6]
