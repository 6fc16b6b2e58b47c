"""Results as files in a folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

from noetl_core.adapters.keys import check_key
from noetl_core.adapters.local.home import private_folder
from noetl_core.ports import NotFound, ObjectWriter, StorageFailed
from noetl_core.values.frozen import frozen
from noetl_core.values.result_refs import is_plain, unchecked_reference

DRAFT = ".put-"
"""The beginning of the name of an incomplete file."""
DRAFT_S = 3600
"""Seconds after its last write at which a draft is considered abandoned."""


class FileResultStore:
    """`ResultStore` in a folder: a key is a relative path. A file is written completely or not at all (rename).

    `durable` is as in `Database`; `power` syncs each object, so that no commit refers to an object that a power cut lost.
    """

    def __init__(self, root: str | Path, durable: Literal["process", "power"] = "process") -> None:
        self._root = Path(root).resolve()
        self._synced = durable == "power"

    def _path(self, key: str) -> Path:
        if "\0" in key:
            raise NotFound(f"key {key!r} is not the name of a file")
        path = (self._root / key).resolve()
        if not path.is_relative_to(self._root) or path == self._root or not is_plain(key):
            raise NotFound(f"key {key!r} is outside the store")
        return path

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        with self.writer(key, content_type) as out:
            out.write(body)
            return out.finish()

    def writer(self, key: str, content_type: str = "application/json") -> ObjectWriter:
        check_key(key)
        return _FileWriter(key, self._path(key), self._synced)

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        try:
            with self._path(key).open("rb") as file:
                first = file.seek(start or 0)
                return file.read() if end is None else file.read(max(0, end - first))
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFound(f"no object {key}") from error
        except OSError as error:
            raise StorageFailed(f"the object {key}: {error.strerror}") from error

    def url(self, key: str) -> str:
        return str(self._path(key))

    def forget(self, execution_id: str) -> None:
        """Delete everything under `<execution_id>/`."""
        shutil.rmtree(self._path(execution_id), ignore_errors=True)

    def sweep(self, now_s: float, is_known: Callable[[str], bool]) -> Swept:
        """Delete drafts that a killed process left, and folders of executions that are not known (any more); both only when they
        are older than `DRAFT_S`."""
        drafts = folders = size = 0
        root = self._root
        for folder in root.iterdir() if root.is_dir() else ():
            if not folder.is_dir() or not _is_older(folder, now_s):
                known = True
            else:
                known = not folder.name.isdecimal() or is_known(folder.name)
            if not known:
                size += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
                shutil.rmtree(folder, ignore_errors=True)
                folders += 1
                continue
            for draft in folder.rglob(f"{DRAFT}*"):
                if _is_older(draft, now_s):
                    with suppress(OSError):
                        size += draft.stat().st_size
                        draft.unlink()
                        drafts += 1
        return Swept(drafts, folders, size)


@frozen
class Swept:
    """Drafts and folders of results that were deleted, and their bytes."""

    drafts: int = 0
    folders: int = 0
    bytes: int = 0


def _is_older(path: Path, now_s: float) -> bool:
    try:
        return path.stat().st_mtime < now_s - DRAFT_S
    except OSError:  # it is gone
        return False


class _FileWriter:
    """`ObjectWriter` that writes a draft beside the file and then renames it."""

    def __init__(self, key: str, path: Path, synced: bool) -> None:
        self._key, self._path, self._synced = key, path, synced
        self._digest, self._size = sha256(), 0
        with self._failing():
            private_folder(path.parent)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=DRAFT)
            self._draft: Path | None = Path(name)
            self._file = os.fdopen(handle, "wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._file.close()
        if self._draft is not None:
            self._draft.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        with self._failing():
            self._file.write(data)
        self._digest.update(data)
        self._size += len(data)

    def finish(self) -> Mapping[str, Any]:
        assert self._draft is not None, "it is finished already"
        with self._failing():
            self._file.flush()
            if self._synced:
                os.fsync(self._file.fileno())
            self._draft.replace(self._path)
        self._draft = None
        return {**unchecked_reference(self._key, self._size), "checksum": f"sha256:{self._digest.hexdigest()}"}

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageFailed(f"the result {self._path}: {error.strerror}") from error


class LazyTempResultStore(FileResultStore):
    """A `FileResultStore` in a temporary folder, created at the first use and removed with the process (or by `close`)."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._folder: Path | None = None
        self._synced = False

    @property
    def _root(self) -> Path:  # type: ignore[override]  # an attribute of the base class, created here at its first use
        with self._making:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="noetl-results-")).resolve()
                self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            return self._folder

    def close(self) -> None:
        if self._folder is not None:
            self._remove()
