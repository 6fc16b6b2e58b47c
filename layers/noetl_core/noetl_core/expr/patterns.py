"""Regular expressions of authors, by RE2: matching takes time linear in the text, whatever the pattern.

RE2 has no lookaround and no backreferences; `BadPattern` says what to write instead. Two of its rules are adapted to those of
Python: `\\Z` is the end of the text, and `\\w`, `\\d` and `\\s` mean those of every alphabet if a text is not only ASCII.

RE2 cannot be interrupted. So one search is bounded before it begins, by the product of the size of the program and the bytes of
the text: `SEARCH_STEPS` takes less than half a second even where RE2 falls back to simulating the automaton.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from jinja2 import nodes

PATTERN_CHARS: Final = 1000
"""Longest pattern."""
TEXT_CHARS: Final = 1_000_000
"""Longest text that a pattern is applied to."""
SEARCH_STEPS: Final = 64_000_000
"""Most instructions of a pattern times bytes of a text."""
MEMORY: Final = 2 << 20
"""Most bytes of one compiled pattern with its automaton; `_compiled` keeps `KEPT` of them."""
KEPT: Final = 32

_ALPHABETS: Final = {
    "w": r"\p{L}\p{M}\p{N}_",
    "d": r"\p{Nd}",
    "s": r"\s\x0b\x1c-\x1f\x{85}\p{Z}",
}
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[:\^?\w+:\]|\[\^?\]?|\]", re.DOTALL)

_REFERENCE: Final = re.compile(r"\\(?:([1-9][0-9]?)|g<(\w+)>|(.|\Z))", re.DOTALL)
_CHARACTERS: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}

_REMEDIES: Final = (
    (r"invalid perl operator: \(\?<?[=!]", "there is no lookaround: match the neighbours too, and put what you want in a group"),
    (r"invalid escape sequence: \\[1-9]", "there are no backreferences: take both groups, and compare them in the template"),
    (r"invalid perl operator: \(\?P$", "there are no backreferences: a group is named by (?P<name>...)"),
    (
        r"invalid perl operator: \(\?>|bad repetition operator: [*+?]\+",
        "there is no atomic or possessive repetition: write the plain *, + or ?",
    ),
    (r"invalid perl operator: \(\?[x#]", "comments belong beside the pattern"),
    (r"invalid repetition size", "repeat at most 1,000 times, nested repetitions multiplied; use + or * without a bound"),
    (r"pattern too large", "repeat less, or use + or * without a bound"),
    (r"invalid escape sequence: \\[uUN]", r"write a character as itself, or as \x{20AC}"),
)


class BadPattern(ValueError):
    """RE2 refuses the pattern. The message says why; `hint` says what to write instead, if that is known."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message} ({hint})")
        self.hint = hint
        self.line = 1
        """The line in its template, with a column if it is a `Line`."""


def compiled(pattern: str, *, ignorecase: bool = False, multiline: bool = False, ascii_only: bool = True) -> Any:
    """Return the compiled pattern of RE2. `ascii_only`: the text has no other characters. Raises `BadPattern`."""
    return _compiled(pattern, ignorecase, multiline, ascii_only)


@lru_cache(maxsize=KEPT)
def _compiled(pattern: str, ignorecase: bool, multiline: bool, ascii_only: bool) -> Any:
    import re2  # 5 ms, and most playbooks have no regular expression

    options = re2.Options()
    options.max_mem = MEMORY
    options.log_errors = False
    options.case_sensitive = not ignorecase
    try:
        return re2.compile(("(?m)" if multiline else "") + _adapted(pattern, ascii_only), options=options)
    except re2.error as error:
        raise _bad(pattern, error.args[0]) from None
    except UnicodeEncodeError:
        raise BadPattern("half of a surrogate pair is not a character") from None


def _bad(pattern: str, why: bytes | str) -> BadPattern:
    reason = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
    hint = next((remedy for words, remedy in _REMEDIES if re.match(words, reason)), None)
    return BadPattern(f"regular expression {pattern!r}: {reason}", hint)


def _adapted(pattern: str, ascii_only: bool) -> str:
    """Return `pattern` in RE2's notation."""
    if "\\" not in pattern:
        return pattern
    in_class = False

    def token(found: re.Match[str]) -> str:
        nonlocal in_class
        text = found[0]
        if text[0] == "[":
            in_class = in_class != text.endswith("]") if in_class and text[1:2] != ":" else True
        elif text == "]":
            in_class = False
        elif text == r"\Z":
            return r"\z"
        elif not ascii_only and text[1:].lower() in _ALPHABETS:
            members = _ALPHABETS[text[1:].lower()]
            if text[1].islower():
                return members if in_class else f"[{members}]"
            if not in_class:
                return f"[^{members}]"
            if text[1] == "D":
                return r"\P{Nd}"
        return text

    return _TOKEN.sub(token, pattern)


def check_literals(template: nodes.Template) -> None:
    """Raise `BadPattern`, with the place in `line`, for the first literal pattern of a template that is refused."""
    for node in template.find_all(nodes.Filter):
        args = [*node.args]
        name = node.name
        if name == "map" and args and isinstance(args[0], nodes.Const):
            name, *args = args[0].value, *args[1:]
        if not isinstance(name, str) or not name.startswith("regex_"):
            continue
        patterns = [keyword.value for keyword in node.kwargs if keyword.key == "pattern"]
        for pattern in [*patterns, *args][:1]:
            if isinstance(pattern, nodes.Const) and isinstance(pattern.value, str):
                try:
                    if len(pattern.value) > PATTERN_CHARS:
                        raise BadPattern(f"a regular expression longer than {PATTERN_CHARS} characters")
                    compiled(pattern.value)
                except BadPattern as error:
                    error.line = pattern.lineno
                    raise


def search_steps(pattern: Any, text: str) -> int:
    """Return the most steps that one search of `pattern` in `text` takes."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return int(pattern.programsize) * (size + 1)


def expansion(replacement: str, groups: int, names: Mapping[str, int]) -> list[str | int]:
    r"""Return the texts and group numbers of a replacement: `\1` to `\99` and `\g<name>` are groups, `\n`, `\r`, `\t` and `\\`
    characters. Raises `BadPattern`."""
    parts: list[str | int] = []
    at = 0
    for found in _REFERENCE.finditer(replacement):
        parts.append(replacement[at : found.start()])
        at = found.end()
        number, name, char = found.groups()
        if char is not None and char in _CHARACTERS:
            parts.append(_CHARACTERS[char])
            continue
        group = int(number) if number else int(name) if name and name.isdecimal() else names.get(name or "", -1)
        if not 0 <= group <= groups:
            known = ", ".join([*(f"\\{n}" for n in range(1, min(groups, 9) + 1)), *(f"\\g<{n}>" for n in names)])
            hint = f"the groups are {known}" if known else "the pattern has no groups; a backslash is written \\\\"
            raise BadPattern(f"replacement {replacement!r}: there is no {found[0]}", hint)
        parts.append(group)
    return [*parts, replacement[at:]]
