"""Defines which keys objects may have. The rule is the same for all stores, so that a playbook that runs locally also runs on
S3."""

from __future__ import annotations

from noetl_core.ports import TooLarge

MAX_KEY = 1024
"""The most bytes of a key (S3's limit)."""
MAX_NAME = 255
"""The most bytes of each part between slashes (the limit of file systems)."""


def check_key(key: str) -> None:
    """Raise `TooLarge` for a key that some store would refuse."""
    parts = key.encode("utf-8", "surrogatepass").split(b"/")
    if sum(map(len, parts)) + len(parts) - 1 > MAX_KEY or max(map(len, parts)) > MAX_NAME:
        raise TooLarge(
            f"the key {key[:60]!r}... is longer than {MAX_KEY} bytes, or a part of it between slashes is longer than {MAX_NAME}"
        )
