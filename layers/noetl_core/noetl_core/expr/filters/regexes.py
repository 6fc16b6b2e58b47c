"""Regular expressions, by RE2 (`expr.patterns`). Patterns, texts and their product have limits; results are charged first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from noetl_core.expr import patterns
from noetl_core.expr.budget import width
from noetl_core.expr.errors import LimitExceeded, TemplateError
from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.evaluation_limits import ITEM_SIZE
from noetl_core.expr.filters.registry import text_filter
from noetl_core.expr.values import describe

REPLACEMENT_CHARS: Final = 1000
"""Longest replacement with groups."""
MATCH_ITEMS: Final = 4
"""The size of one match, and of one group, in list items."""


def _pattern(ev: Evaluation, text: str, pattern: Any, ignorecase: Any, multiline: Any) -> Any:
    """Return the compiled pattern, after counting one search in `text`."""
    if type(pattern) is not str:
        raise TemplateError(f"a regular expression must be text, not a {describe(pattern)}")
    if len(pattern) > patterns.PATTERN_CHARS:
        raise LimitExceeded(f"a regular expression longer than {patterns.PATTERN_CHARS} characters")
    if len(text) > patterns.TEXT_CHARS:
        raise LimitExceeded(f"a text of more than {patterns.TEXT_CHARS} characters for a regular expression")
    try:
        found = patterns.compiled(pattern, ignorecase=bool(ignorecase), multiline=bool(multiline), ascii_only=text.isascii())
    except patterns.BadPattern as error:
        raise TemplateError(str(error)) from None
    steps = patterns.search_steps(found, text)
    if steps > patterns.SEARCH_STEPS:
        longest = patterns.SEARCH_STEPS // found.programsize
        raise LimitExceeded(
            f"a regular expression of this size takes a text of at most {longest} bytes; split the text, or repeat less in the"
            " expression"
        )
    ev.tick(16 + (steps >> 8))
    ev.check_limits()
    return found


def _matches(ev: Evaluation, pattern: Any, text: str) -> Iterator[Any]:
    """Yield the matches. The time is checked after each, because a match may need a search to the end of the text."""
    for match in pattern.finditer(text):
        ev.tick()
        ev.check_limits()
        yield match


def _groups(ev: Evaluation, pattern: Any, match: Any, wide: int) -> Any:
    """Return a match as data, charged: the whole text without groups, the one group, or the list of groups."""
    groups = range(1, pattern.groups + 1) if pattern.groups else (0,)
    size = sum(match.end(group) - match.start(group) for group in groups)
    ev.charge(size * wide + MATCH_ITEMS * ITEM_SIZE * (1 + len(groups)))
    found = [match.group(group) for group in groups]
    return found[0] if len(found) == 1 else found


@text_filter("regex_match")
def regex_match(ev: Evaluation, text: str, pattern: str, ignorecase: Any = False, multiline: Any = False) -> bool:
    """Return whether the text begins with the pattern."""
    return _pattern(ev, text, pattern, ignorecase, multiline).match(text) is not None


@text_filter("regex_search")
def regex_search(ev: Evaluation, text: str, pattern: str, ignorecase: Any = False, multiline: Any = False) -> Any:
    """Return the first match: its text, its group if there is one, the list of its groups if there are more; None without a
    match."""
    found = _pattern(ev, text, pattern, ignorecase, multiline)
    match = found.search(text)
    return None if match is None else _groups(ev, found, match, width(text))


@text_filter("regex_findall")
def regex_findall(ev: Evaluation, text: str, pattern: str, ignorecase: Any = False, multiline: Any = False) -> list[Any]:
    """Return all matches, each as `regex_search` returns it."""
    found = _pattern(ev, text, pattern, ignorecase, multiline)
    wide = width(text)
    return [_groups(ev, found, match, wide) for match in _matches(ev, found, text)]


@text_filter("regex_replace")
def regex_replace(
    ev: Evaluation,
    text: str,
    pattern: str,
    replacement: Any = "",
    count: int = 0,
    ignorecase: Any = False,
    multiline: Any = False,
) -> str:
    r"""The text with matches replaced (`\1` and `\g<name>` are groups), at most `count` times (0: always)."""
    template = ev.text(replacement)
    has_groups = "\\" in template
    if has_groups and len(template) > REPLACEMENT_CHARS:
        raise LimitExceeded(f"a replacement with groups longer than {REPLACEMENT_CHARS} characters")
    if type(count) not in (int, bool) or count < 0:
        raise TemplateError("regex_replace: count must be a whole number of at least 0")
    ev.charge_text(text)
    found = _pattern(ev, text, pattern, ignorecase, multiline)
    try:
        parts = patterns.expansion(template, found.groups, found.groupindex) if has_groups else [template]
    except patterns.BadPattern as error:
        raise TemplateError(str(error)) from None
    wide = max(width(text), width(template))
    pieces: list[str] = []
    at = 0
    for number, match in enumerate(_matches(ev, found, text), 1):
        size = sum(len(part) if type(part) is str else match.end(part) - match.start(part) for part in parts)
        ev.charge(size * wide + ITEM_SIZE * (MATCH_ITEMS + len(parts)))
        pieces.append(text[at : match.start()])
        pieces.extend(part if type(part) is str else match.group(part) or "" for part in parts)
        at = match.end()
        if number == count:
            break
    pieces.append(text[at:])
    return "".join(pieces)
