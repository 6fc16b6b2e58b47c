"""Regular expressions with limits: pattern and text have limits, and matching has a timeout (no catastrophic backtracking)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from noetl_core.expr.errors import LimitExceeded, TemplateError
from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.filters.registry import text_filter

PATTERN_CHARS: Final = 1000
TEXT_CHARS: Final = 1_000_000
SECONDS: Final = 0.2


def _library() -> Any:
    import regex  # 40 ms: most playbooks have no regular expression

    return regex


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: int) -> Any:
    return _library().compile(pattern, flags)


def _pattern(ev: Evaluation, text: str, pattern: Any, ignorecase: Any, multiline: Any) -> Any:
    regex = _library()
    if type(pattern) is not str:
        raise TemplateError("a regular expression must be text")
    if len(pattern) > PATTERN_CHARS:
        raise LimitExceeded(f"a regular expression longer than {PATTERN_CHARS} characters")
    if len(text) > TEXT_CHARS:
        raise LimitExceeded(f"a text of more than {TEXT_CHARS} characters for a regular expression")
    ev.tick(16 + (len(text) >> 6))
    ev.check_limits()
    flags = (regex.IGNORECASE if ignorecase else 0) | (regex.MULTILINE if multiline else 0)
    try:
        return _compiled(pattern, flags)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise TemplateError(f"regular expression {pattern!r}: {error}") from None


@contextmanager
def _bounded(ev: Evaluation) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        if error is ev.raised:
            raise
        raise LimitExceeded(f"a regular expression that takes more than {SECONDS} s") from None


def _groups(match: Any) -> Any:
    """Return a match as data: the whole text without groups, the one group, or the list of groups."""
    groups = match.groups()
    return match.group() if not groups else groups[0] if len(groups) == 1 else list(groups)


@text_filter("regex_match")
def regex_match(ev: Evaluation, text: str, pattern: str, ignorecase: Any = False, multiline: Any = False) -> bool:
    """Return whether the text begins with the pattern."""
    with _bounded(ev):
        return _pattern(ev, text, pattern, ignorecase, multiline).match(text, timeout=SECONDS) is not None


@text_filter("regex_search")
def regex_search(ev: Evaluation, text: str, pattern: str, ignorecase: Any = False, multiline: Any = False) -> Any:
    """Return the first match: its text, its group if there is one, the list of its groups if there are more; None without a
    match."""
    with _bounded(ev):
        match = _pattern(ev, text, pattern, ignorecase, multiline).search(text, timeout=SECONDS)
    return None if match is None else _groups(match)


@text_filter("regex_findall")
def regex_findall(ev: Evaluation, text: str, pattern: str, ignorecase: Any = False, multiline: Any = False) -> list[Any]:
    """Return all matches, each as `regex_search` returns it."""
    found = []
    with _bounded(ev):
        for match in _pattern(ev, text, pattern, ignorecase, multiline).finditer(text, timeout=SECONDS):
            ev.charge_items(4)
            found.append(_groups(match))
    return found


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
    if has_groups and len(template) > PATTERN_CHARS:
        raise LimitExceeded(f"a replacement with groups longer than {PATTERN_CHARS} characters")

    def replaced(match: Any) -> str:
        expanded: str = match.expand(template) if has_groups else template
        ev.charge(len(expanded) + 16)
        return expanded

    ev.charge(len(text))
    regex = _library()
    with _bounded(ev):
        try:
            out: str = _pattern(ev, text, pattern, ignorecase, multiline).sub(replaced, text, count=count, timeout=SECONDS)
        except (regex.error, IndexError) as error:
            raise TemplateError(f"replacement {template!r}: {error}") from None
    return out
