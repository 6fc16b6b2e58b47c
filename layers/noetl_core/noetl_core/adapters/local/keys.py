"""Keys of a local store: 32 random bytes in a file that only its owner may read, created when first needed."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from noetl_core.adapters.local.home import private_folder
from noetl_core.ports import CorruptLog, StorageFailed

KEY_BYTES = 32


def memory_key() -> Callable[[], bytes]:
    """Return a key that exists as long as the process."""
    return cache(lambda: secrets.token_bytes(KEY_BYTES))


def file_key(path: str | Path) -> Callable[[], bytes]:
    """Return the key in the file `path` (mode 0600). When several processes create it at the same time, one wins and all use
    its key."""
    return cache(lambda: _read(Path(path)))


def _read(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        _make(path)
        key = path.read_bytes()
    except OSError as error:
        raise StorageFailed(f"the key {path} cannot be read: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise CorruptLog(f"{path} is not a key: {KEY_BYTES} bytes are expected, it has {len(key)}")
    return key


def _make(path: Path) -> None:
    try:
        private_folder(path.parent)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".key-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
            os.link(draft, path)  # atomic, and fails if the file already exists
        except FileExistsError:
            pass
        finally:
            Path(draft).unlink()
    except OSError as error:
        raise StorageFailed(f"the key {path} cannot be made: {error.strerror}") from error
