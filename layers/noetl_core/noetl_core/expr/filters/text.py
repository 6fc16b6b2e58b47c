"""Filters on text."""

from __future__ import annotations

import re
import textwrap
from html import unescape
from typing import Any, Final
from urllib.parse import quote, quote_plus

from markupsafe import escape as html_escape

from noetl_core.expr.errors import TemplateError
from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.evaluation_limits import FIELD_WIDTH
from noetl_core.expr.filters.registry import filter_, is_undefined, raw_filter, text_filter
from noetl_core.expr.formatting import percent
from noetl_core.expr.methods import LINE_ENDS, WHITESPACE, bounded, replace

_WORD_START: Final = re.compile(r"([-\s({\[<]+)")
QUOTE: Final = 12
"""The cost that `quote` charges for each byte: three characters, and an item of a list."""
_WORD: Final = re.compile(r"\w+")


@text_filter("upper")
def upper(ev: Evaluation, text: str) -> str:
    ev.charge_text(text, 3)  # as many letters become up to three
    return text.upper()


@text_filter("lower")
def lower(ev: Evaluation, text: str) -> str:
    ev.charge_text(text, 2)
    return text.lower()


@text_filter("capitalize")
def capitalize(ev: Evaluation, text: str) -> str:
    ev.charge_text(text, 3)
    return text.capitalize()


@text_filter("title")
def title(ev: Evaluation, text: str) -> str:
    ev.charge_text(text, 8)
    return "".join(w[:1].upper() + w[1:].lower() for w in _WORD_START.split(text) if w)


@text_filter("string")
def string(ev: Evaluation, text: str) -> str:
    ev.charge_text(text)
    return text


@text_filter("trim")
def trim(ev: Evaluation, text: str, chars: str | None = None) -> str:
    ev.charge_text(text)
    return text.strip(chars)


@text_filter("center")
def center(ev: Evaluation, text: str, width: int = 80) -> str:
    ev.charge_joined(max(len(text), bounded(width)), text)
    return text.center(width)


@text_filter("indent")
def indent(ev: Evaluation, text: str, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    prefix = width if type(width) is str else " " * bounded(width)
    lines = sum(text.count(c) for c in LINE_ENDS) + 1
    ev.charge_joined(len(text) + len(prefix) * lines, text, prefix)
    ev.charge_pieces(lines)
    text += "\n" if blank else ""
    head, *rest = text.splitlines() or [""]
    rest = [prefix + line if line or blank else line for line in rest]
    return "\n".join([prefix + head if first else head, *rest])


@text_filter("replace")
def replace_(ev: Evaluation, text: str, old: Any, new: Any, count: int | None = None) -> str:
    return replace(ev, text, ev.text(old), ev.text(new), -1 if count is None else int(count))


@text_filter("truncate")
def truncate(ev: Evaluation, text: str, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5) -> str:
    if length < len(end):
        raise TemplateError(f"truncate: the length must be at least {len(end)}")
    if len(text) <= length + leeway:
        return text
    ev.charge_text(text)
    cut = text[: length - len(end)]
    ev.charge_joined(len(cut) + len(end), cut, end)
    return cut + end if killwords else cut.rsplit(" ", 1)[0] + end


@text_filter("wordcount")
def wordcount(ev: Evaluation, text: str) -> int:
    ev.charge(len(text))
    return sum(1 for _ in _WORD.finditer(text))


@text_filter("wordwrap")
def wordwrap(
    ev: Evaluation,
    text: str,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str = "\n",
    break_on_hyphens: bool = True,
) -> str:
    if not 0 < width <= FIELD_WIDTH:
        raise TemplateError(f"wordwrap: the width must be 1 to {FIELD_WIDTH}")
    ev.charge(len(text) * 8 + (len(text) // width + text.count("\n") + text.count(" ") + 1) * len(wrapstring))
    ev.tick(len(text) >> 2)
    return wrapstring.join(
        wrapstring.join(
            textwrap.wrap(
                line,
                width=width,
                expand_tabs=False,
                replace_whitespace=False,
                break_long_words=break_long_words,
                break_on_hyphens=break_on_hyphens,
            )
        )
        for line in text.splitlines()
    )


@text_filter("striptags")
def striptags(ev: Evaluation, text: str) -> str:
    """Return the text without tags and comments, with white space collapsed and entities decoded; linear in the text."""
    ev.charge_text(text, 2)
    ev.charge_pieces(sum(text.count(c) for c in WHITESPACE))
    kept, position = [], 0
    while (start := text.find("<", position)) != -1:
        ev.charge_pieces(1)
        kept.append(text[position:start])
        close = "-->" if text.startswith("<!--", start) else ">"
        end = text.find(close, start)
        if end == -1:
            position = start
            break
        position = end + len(close)
    kept.append(text[position:])
    return unescape(" ".join("".join(kept).split()))


@text_filter("escape", "e", "forceescape")
def escape(ev: Evaluation, text: str) -> str:
    ev.charge_joined(len(text) + 5 * sum(text.count(c) for c in "&<>\"'"), text)
    return str(html_escape(text))


@raw_filter("safe")
def safe(ev: Evaluation, value: Any) -> Any:
    """Return the value unchanged, because nothing is escaped; it is accepted because templates contain it."""
    return value


@text_filter("format")
def format_(ev: Evaluation, text: str, /, *args: Any, **kwargs: Any) -> str:
    if args and kwargs:
        raise TemplateError("format takes either positional or named values")
    return percent(ev, text, kwargs or args)


@filter_("urlencode")
def urlencode(ev: Evaluation, value: Any) -> str:
    """Return a text quoted for a path; a mapping or a list of pairs as a query string."""
    if is_undefined(value) or type(value) in (str, int, float, bool):
        text = ev.text(value)
        ev.charge_text(text, QUOTE)
        return quote(text, safe="/")
    pairs = ([k, v] for k, v in value.items()) if isinstance(value, dict) else ev.each(value)
    parts = []
    for pair in pairs:
        key, item = ev.items(pair)
        part = f"{_quoted(ev, key)}={_quoted(ev, item)}"
        ev.charge(len(part) + 1)
        parts.append(part)
    return "&".join(parts)


def _quoted(ev: Evaluation, value: Any) -> str:
    text = ev.text(value)
    ev.charge_text(text, QUOTE)
    return quote_plus(text)


@filter_("filesizeformat")
def filesizeformat(ev: Evaluation, value: Any, binary: bool = False) -> str:
    try:
        size = float(value)
    except (TypeError, ValueError):
        raise TemplateError("filesizeformat needs a number") from None
    base = 1024 if binary else 1000
    if size == 1:
        return "1 Byte"
    if size < base:
        return f"{int(size)} Bytes"
    units = [f"{letter}iB" for letter in "KMGTPEZY"] if binary else [f"{letter}B" for letter in "kMGTPEZY"]
    unit = float(base)
    for name in units[:-1]:
        if size < unit * base:
            return f"{size / unit:.1f} {name}"
        unit *= base
    return f"{size / unit:.1f} {units[-1]}"
