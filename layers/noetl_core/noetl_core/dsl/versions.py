"""Selects a version of a playbook: the latest, a number, or an alias (docs/catalog.md).

A path may contain the version: `path@3` and `path@prod`. Only the catalog knows the version of an alias.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Version: TypeAlias = int | str | None
"""A number, the name of an alias, or None: the latest version."""

LATEST: Final = "latest"
ALIAS: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]{0,63}\Z")
MAX_VERSION: Final = 999_999_999
FORM: Final = "a number, or an alias such as prod"


class BadVersion(ValueError):
    """The text is not a version: neither a number nor the name of an alias. Who acts: the author of the text."""


def version_of(value: object) -> Version:
    """Return the version that a value means. Raises `BadVersion`."""
    if value is None or value in ("", LATEST):
        return None
    text = str(value).strip()
    if not isinstance(value, bool | float) and text.isascii() and text.isdecimal() and 0 < int(text) <= MAX_VERSION:
        return int(text)
    if isinstance(value, str) and ALIAS.match(text):
        return text
    raise BadVersion(f"{str(value)[:80]!r} is not a version of a playbook: {FORM}")


def split_version(text: str) -> tuple[str, Version]:
    """Return the path and the version of `path`, `path@3` or `path@prod`. Raises `BadVersion`."""
    path, at, version = text.partition("@")
    if at and not version:
        raise BadVersion(f"{text[:80]!r} has no version after the @: {FORM}")
    return path, version_of(version)
