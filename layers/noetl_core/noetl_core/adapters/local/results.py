"""Results as files in a folder, or in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from noetl_core.ports import NotFound


def _reference(key: str, body: bytes) -> dict[str, Any]:
    return {"kind": "result_ref", "store": "s3", "key": key, "size": len(body), "checksum": "sha256:" + sha256(body).hexdigest()}


class FileResultStore:
    """`ResultStore` in a folder: a key is a relative path. Written whole or not at all (rename)."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).resolve()

    def _path(self, key: str) -> Path:
        path = (self._root / key).resolve()
        if not path.is_relative_to(self._root) or path == self._root:
            raise NotFound(f"key {key!r} is outside the store")
        return path

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".put-")
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        Path(draft).replace(path)
        return _reference(key, body)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        try:
            with self._path(key).open("rb") as file:
                file.seek(start or 0)
                return file.read() if end is None else file.read(end - (start or 0))
        except (FileNotFoundError, IsADirectoryError) as error:
            raise NotFound(f"no object {key}") from error

    def url(self, key: str) -> str:
        return str(self._path(key))


class LazyTempResultStore(FileResultStore):
    """A `FileResultStore` in a temporary folder, made at the first object and removed with the process."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def _root(self) -> Path:  # type: ignore[override]
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="noetl-results-")
        return Path(self._folder.name).resolve()
