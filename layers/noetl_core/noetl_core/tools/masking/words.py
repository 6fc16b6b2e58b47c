"""Words as secrets: which texts may appear in data by chance, and where a text itself says that a word is a secret.

A password such as `demo` is in much data that has nothing to do with it, and masking must not change that data. But nobody writes
`password=demo` or `Bearer demo` by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from noetl_core.tools.masking.forms import LONG

NO_WORD: Final = 16
"""A text of this length is not a word: words and names as long are rare, and generated keys and tokens are not shorter. A text
of `LONG` characters is none if it mixes letters with digits or symbols."""
JOINTS: Final = "-_. "
"""Characters that join words."""
BEFORE: Final = 100
"""The most characters with which a text says that the following word is a secret."""

_QUOTE: Final = r"\\{0,4}[\"']?"
_IS: Final = rf"{_QUOTE}\s{{0,3}}[:=]{{1,2}}\s{{0,3}}{_QUOTE}"
_KEY: Final = r"(?:api|access|secret|private)[-_ ]?key"
_SAYS: Final = re.compile(
    rf"(?:bearer\s{{1,3}}|(?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|{_KEY}){_IS}"
    rf"|authorization{_IS}(?:[a-z]{{1,16}}\s{{1,3}})?|\A(?:token|api-?key)\s{{1,3}})\Z",
    re.IGNORECASE,
)
_USER: Final = re.compile(r"://[^\s/@:\"']{0,64}:\Z")
"""The text before the password in a URL. An @ follows the password."""
_EDGES: Final = frozenset(" \t\r\n:='\"\\")


def is_word(text: str) -> bool:
    """Return whether `text` may appear in data by chance: it is short, or words of letters, or digits alone."""
    if not LONG <= len(text) < NO_WORD:
        return len(text) < LONG
    return _without_joints(text).isalpha() or not any(map(str.isalpha, text))


def is_joined(text: str) -> bool:
    """Return whether `text` is several words, which are not in data by chance when they stand alone together."""
    return len(text) >= LONG and any(joint in text for joint in JOINTS) and _without_joints(text).isalpha()


def is_alone(text: str, begin: int, end: int) -> bool:
    """Return whether no letter or digit is beside a part of `text`."""
    return not _is_part(text[begin - 1 : begin], text[begin]) and not _is_part(text[end : end + 1], text[end - 1])


def is_alone_together(text: str, begin: int, end: int) -> bool:
    """Return whether joined words stand alone: no further word is joined to them, except by a space."""
    return is_alone(text, begin, end) and not _is_joined_to(text[max(0, begin - 2) : begin][::-1]) and _ends(text, end)


def alone_pattern(secret: str) -> re.Pattern[str]:
    """Return the pattern of a secret that no letter or digit is beside."""
    before = r"(?<!\w)" if re.match(r"\w", secret[0]) else ""
    after = r"(?!\w)" if re.match(r"\w", secret[-1]) else ""
    return re.compile(before + re.escape(secret) + after)


def called_secret(text: str, searched: str, word: str, first: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield where `text` says that `word` is a secret: where that begins, and the span of the word. It is looked for in
    `searched`, which is `text` or its lower case, from `first` on."""
    begin = searched.find(word, first)
    while begin >= 0:
        end = begin + len(word)
        if text[begin - 1 : begin] in _EDGES and begin:
            if text[end : end + 1] == "@":
                says = _USER.search(text, max(0, begin - BEFORE), begin)
            else:
                says = _SAYS.search(text, max(0, begin - BEFORE), begin) if _ends(text, end) else None
            if says is not None:
                yield says.start(), begin, end
        begin = searched.find(word, end)


def _without_joints(text: str) -> str:
    for joint in JOINTS:
        text = text.replace(joint, "")
    return text


def _ends(text: str, end: int) -> bool:
    """Return whether a word ends at `end`: neither a letter nor a further word follows."""
    after = text[end : end + 2]
    return not (after[:1].isalnum() or after[:1] == "_") and not _is_joined_to(after)


def _is_joined_to(beside: str) -> bool:
    """Return whether two characters, the nearer first, are a joint other than a space, and a letter or digit."""
    return beside[:1] in ("-", "_", ".") and beside[1:].isalnum()


def _is_part(beside: str, edge: str) -> bool:
    return (beside.isalnum() or beside == "_") and (edge.isalnum() or edge == "_")
