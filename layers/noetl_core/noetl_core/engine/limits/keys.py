"""Computes the keys of shared limits: the value of a template, as text."""

from __future__ import annotations

from typing import Any, Final

from noetl_core.expr import TemplateError, contains_secret

MAX_LIMIT_KEY: Final = 200
"""The most characters of a key: it is shown, and is part of the keys of items."""


class BadKey(TemplateError):
    """A key is not a text, or not a valid one. Who acts: the author."""

    kind = "schema"


def limit_key(value: Any, what: str) -> str:
    """Return a rendered key. A number counts as text; an empty value is an error, because all executions without a value would
    share one limit. Raises `BadKey`, which names `what`."""
    if contains_secret(value):
        raise BadKey(f"{what} reads a secret: keys are shown to everybody who may look at limits")
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        if value is None or not str(value).strip():
            raise BadKey(f"{what} must be text, and is empty; if a value may be missing, use default(...)")
        raise BadKey(f"{what} must be text or a number, not {repr(value)[:60]}")
    text = str(value).strip()
    if len(text) > MAX_LIMIT_KEY:
        raise BadKey(f"{what} may have at most {MAX_LIMIT_KEY} characters, this one has {len(text):,}: {text[:40]!r}...")
    if not text.isprintable():
        raise BadKey(f"{what} has characters that cannot be shown: {text!r}")
    return text
