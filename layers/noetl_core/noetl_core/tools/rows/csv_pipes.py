"""CSV out of DuckDB and into it through a pipe, in constant memory and without files.

Text fields are quoted, so that an empty text is not a NULL. PostgreSQL's COPY writes and reads the same format.
"""

from __future__ import annotations

import fcntl
import os
import select
import termios
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final
from uuid import uuid4

import duckdb

PIECE: Final = 1024 * 1024
PIPE: Final = 65_536
"""The capacity of a pipe on Linux."""
MAX_LINE: Final = 16 * 1024 * 1024
_SLICE_S: Final = 0.1
_AS_POSTGRES_WRITES_IT: Final = (
    "auto_detect = false, header = false, delim = ',', quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false,"
    f" parallel = false, max_line_size = {MAX_LINE}, buffer_size = {2 * MAX_LINE}"
)


def quoted(name: str) -> str:
    """Return an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def csv_of(connection: duckdb.DuckDBPyConnection, query: str, folder: Path) -> Iterator[bytes]:
    """Yield the rows of a query as CSV without a header. Raises `duckdb.Error`."""
    path = _pipe(folder)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as end:
        work = _Work(lambda: connection.execute(f"COPY ({query}\n) TO {text(str(path))} (FORMAT csv, HEADER false)"))
        try:
            while True:
                over = work.over  # before reading: rows written by then are read below
                ready, _, _ = select.select([end], [], [], 0 if over else _SLICE_S)
                piece = end.read(PIECE) if ready else None
                if piece:
                    yield piece
                elif over:
                    break
                elif ready:
                    work.wait(0.001)  # no writer at the moment
            work.result()
        finally:
            if not work.over:  # the reader gave up
                connection.interrupt()
                while not work.over:
                    while end.read(PIECE):
                        pass
                    work.wait(_SLICE_S)
            path.unlink()


def from_csv(
    connection: duckdb.DuckDBPyConnection, pieces: Iterable[bytes], columns: Mapping[str, str], statement: str, folder: Path
) -> None:
    """Run `statement`, whose `{rows}` is replaced by the CSV rows of `pieces`, without a header; `columns` are their types, by
    name. Raises `duckdb.Error`, and the exceptions of `pieces`."""
    coming = iter(pieces)
    first = next((piece for piece in coming if piece), b"")
    if not first:
        nothing = ", ".join(f"NULL::{kind} AS {quoted(name)}" for name, kind in columns.items())
        connection.execute(statement.format(rows=f"(SELECT {nothing} WHERE false)"))
        return
    path = _pipe(folder)
    types = ", ".join(f"{text(name)}: {text(kind)}" for name, kind in columns.items())
    rows = f"read_csv({text(str(path))}, columns = {{{types}}}, {_AS_POSTGRES_WRITES_IT})"
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening the other end would block otherwise
    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    work = _Work(lambda: connection.execute(statement.format(rows=rows)))
    try:
        for piece in chain([first], coming):
            rest = memoryview(piece)
            while rest and not work.over:
                if select.select([], [writer], [], _SLICE_S)[1]:
                    rest = rest[os.write(writer, rest[:PIPE]) :]
            if work.over:
                break
    except BaseException:
        connection.interrupt()
        raise
    finally:
        while _unread(reader) and not work.over:  # DuckDB must have opened its end before this one closes
            work.wait(0.002)
        os.close(writer)
        work.join()
        os.close(reader)
        path.unlink()
    work.result()


def _pipe(folder: Path) -> Path:
    path = folder / f"pipe-{uuid4().hex}"
    os.mkfifo(path, 0o600)
    return path


def _unread(reader: int) -> int:
    """Return the number of unread bytes in a pipe."""
    waiting = array("i", [0])
    fcntl.ioctl(reader, termios.FIONREAD, waiting)
    return waiting[0]


class _Work:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="noetl-duckdb", daemon=True)
        self._error: BaseException | None = None
        self._thread.start()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        return self._over.wait(seconds)

    def join(self) -> None:
        self._thread.join()

    def result(self) -> None:
        """Wait for the end; raise the exception of the call."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # an error of the library: the waiting thread raises it
            self._error = error
        finally:
            self._over.set()
