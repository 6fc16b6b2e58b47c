"""Plain scalars by the YAML 1.2 core schema, and the differences to YAML 1.1."""

from __future__ import annotations

import math
import re
from typing import Final

_WORDS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip

_MAY_BE_NUMBER: Final = frozenset("+-.0123456789")
_INT: Final = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL: Final = re.compile(r"0o[0-7]+\Z")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE: Final = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")

BOOLEANS_1_1: Final = frozenset(w for word in ("yes", "no", "on", "off") for w in (word, word.capitalize(), word.upper()))
_OCTAL_1_1: Final = re.compile(r"[-+]?0[0-9]+\Z")
_EXPONENT_1_1: Final = re.compile(r"[-+]?[0-9.]+[eE][0-9]+\Z|[-+]?[0-9]+[eE][-+]?[0-9]+\Z")
_UNDERSCORED: Final = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F]*_[0-9a-fA-F_]*|[0-9][0-9]*_[0-9_]*(\.[0-9_]*)?)\Z")
_SEXAGESIMAL: Final = re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?\Z")

DIGITS: Final = 300
"""Longest number; longer ones are ids or mistakes, and cost quadratic time to read."""


class NotANumber(ValueError):
    """The scalar is a number that JSON and the event log cannot hold."""


def resolve(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar. Raises `NotANumber` for infinities, NaN and numbers of more than `DIGITS`
    digits."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _MAY_BE_NUMBER:
        return text
    number: int | float | None = None
    if _INT.match(text):
        number = int(text) if len(text) <= DIGITS else math.inf
    elif _OCTAL.match(text) and len(text) <= DIGITS:
        number = int(text[2:], 8)
    elif _HEX.match(text) and len(text) <= DIGITS:
        number = int(text[2:], 16)
    elif _FLOAT.match(text):
        number = float(text) if len(text) <= DIGITS else math.inf
    elif _NOT_FINITE.match(text):
        number = math.nan
    if number is None:
        return text
    if isinstance(number, float) and not math.isfinite(number):
        raise NotANumber(text if len(text) <= 40 else text[:40] + "...")
    return number


def surprise(text: str) -> str | None:
    """Return, in words, how YAML 1.1 reads an unquoted scalar that 1.2 reads differently; None when both agree."""
    if text in BOOLEANS_1_1:
        return "a boolean"
    if not text or text[0] not in _MAY_BE_NUMBER:
        return None
    if _OCTAL_1_1.match(text):
        return "an octal number" if not set(text) & {"8", "9"} else "text"
    if _INT.match(text):
        return None
    if _SEXAGESIMAL.match(text):
        return "a number to base 60"
    if _UNDERSCORED.match(text):
        return "a number"
    if _EXPONENT_1_1.match(text) and not re.match(r"[-+]?[0-9]*\.[0-9]*[eE][-+]", text):
        return "text"
    return None
