"""Missing names as errors instead of undefined values: in the content of the keychain, and everywhere in strict executions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

LISTED: Final = 20
"""The most names in the error message when no name is similar."""
COMPARED: Final = 1_000
"""The most names that a missing one is compared with."""

OPTIONAL: Final = frozenset({"error", "http", "pg", "py", "result", "code", "details", "retryable", "step", "task", "iteration"})
"""Parts of an outcome or an error that are left out where they do not apply."""


def may_lack(value: object, name: object) -> bool:
    """Return whether `value` is an outcome or an error, which may lack its part `name`."""
    return name in OPTIONAL and isinstance(value, Mapping) and ("status" in value or {"kind", "message"} <= value.keys())


def remedy_for(name: object, value: object) -> str:
    """Return the most similar names of `value`, for the message about a missing `name`."""
    names = [str(n) for n in value] if isinstance(value, Mapping) else []
    near = get_close_matches(str(name), names[:COMPARED], 3)
    return f" (did you mean {' or '.join(map(_quoted, near))}?)" if near else ""


class Strict:
    """A mapping whose missing names fail a template, except under `default`, `is defined`, `or` and `if`.

    `called` is the author's name for it. The error lists the names of its entries, never their values.
    """

    __slots__ = ()

    called: str

    def lacks(self, name: object) -> str:
        """Return the message for a missing `name`."""
        names = sorted(map(str, self)) if isinstance(self, Iterable) else []
        near = get_close_matches(str(name), names, 3)
        if near:
            hint = f"did you mean {' or '.join(_quoted(n) for n in near)}?"
        else:
            hint = f"it has {', '.join(names[:LISTED])}" if names else "it has nothing"
        return f"{self.called} has no {_quoted(str(name)[:80])} ({hint})"


class Fields(Strict, dict[str, Any]):
    """The fields of a credential, and of mappings in it."""

    __slots__ = ("called",)

    def __init__(self, called: str, fields: Mapping[str, Any]) -> None:
        within = {k: Fields(f"{called}.{k}", v) if isinstance(v, Mapping) else v for k, v in fields.items()}
        super().__init__(within)
        self.called = called


def _quoted(name: str) -> str:
    return f'"{name}"'
