"""Reads the rows of an input (rows, or references to rows) in constant memory.

A source is a row, a list of rows, a list of such lists, or a reference to any of these; or a list that mixes them. Stored objects
are read piece by piece: JSON (an array of rows), JSON lines and CSV; Parquet needs a file (`files`).
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from noetl_core.ports import ResultStore
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.values.frozen import frozen
from noetl_core.values.result_refs import FORMAT_OF_SUFFIX, KIND
from noetl_core.values.result_streams import pieces

FORMATS: Final = ("json", "jsonl", "csv", "parquet")
MAX_ROW: Final = 64 * 1024 * 1024
"""Maximum bytes of one row; without a limit a file without line breaks would be held in memory."""

Row = Mapping[str, Any]


@frozen
class Part:
    """A part of a source: rows in memory, or a stored object with its format."""

    rows: Sequence[Row] | None = None
    reference: Mapping[str, Any] | None = None
    form: str = "json"


def parts_of(source: Any, call: ToolCall, name: str, form: str | None = None) -> list[Part]:
    """Return the parts of a source, in order; `form` is the format that the author named. Raises `BadInput`."""
    found: list[Part] = []
    loose: list[Row] = []
    for item in source if isinstance(source, list) else [source]:
        if call.references is not None and call.references.owns(item):
            if loose:
                found.append(Part(rows=loose))
                loose = []
            found.extend(_stored(item, call, name, form))
        else:
            loose.extend(_rows(item, name))
    return [*found, Part(rows=loose)] if loose else found


def _stored(reference: Mapping[str, Any], call: ToolCall, name: str, form: str | None) -> list[Part]:
    """Return the parts of a stored object: the object itself, or the parts of a list that has pages or consists of references."""
    assert call.references is not None
    if reference.get("schema_hint") != "manifest" and not _lists_references(reference, call):
        return [Part(reference=reference, form=form or format_of(reference))]
    return parts_of(call.references.opened(reference, name), call, name, form)


def _lists_references(reference: Mapping[str, Any], call: ToolCall) -> bool:
    """Return whether the first element of a stored list is a reference."""
    if format_of(reference) != "json":
        return False
    first = next(_array(pieces(_results(call), reference), str(reference["key"])), None)
    return call.references is not None and call.references.owns(first)


def _rows(item: Any, name: str) -> Iterator[Row]:
    for row in item if isinstance(item, list) else [item]:
        if isinstance(row, list):
            yield from _rows(row, name)
        elif isinstance(row, Mapping):
            yield row
        else:
            raise BadInput(f"`{name}` must be rows - mappings, or lists of them - or references to rows, not {row!r:.40}")


def format_of(reference: Mapping[str, Any]) -> str:
    """Return the format of a stored object, from its reference or its key's extension. Raises `BadInput`."""
    suffix = str(reference.get("key", "")).rpartition(".")[2].lower()
    form = str(reference.get("format") or FORMAT_OF_SUFFIX.get(suffix, "json"))
    if form not in FORMATS:
        raise BadInput(f"format {form!r} of {str(reference.get('key'))!r} is unknown: {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    return form


def object_bytes(part: Part, call: ToolCall) -> Iterator[bytes]:
    """Yield the stored object of a part. Raises `NotFound`, `Altered`."""
    assert part.reference is not None
    return pieces(_results(call), part.reference)


@contextmanager
def object_file(part: Part, call: ToolCall) -> Iterator[Path]:
    """Yield the stored object of a part as a file. A temporary one is removed after the block."""
    assert part.reference is not None
    where = _results(call).url(str(part.reference["key"]))
    if "://" not in where:
        yield Path(where)
        return
    with TemporaryDirectory(prefix="noetl-object-") as folder:
        path = Path(folder, "object")
        with path.open("wb") as file:
            for piece in object_bytes(part, call):
                file.write(piece)
        yield path


def _results(call: ToolCall) -> ResultStore:
    if call.results is None:
        raise BadInput("this worker has no result store")
    return call.results


def rows_of(part: Part, call: ToolCall, name: str) -> Iterator[Row]:
    """Yield the rows of a part in memory, JSON or JSON lines; references in them are loaded."""
    if part.rows is not None:
        found: Iterator[Row] = iter(part.rows)
    else:
        found = json_rows(object_bytes(part, call), part.form, str((part.reference or {})["key"]))
    for row in found:
        if call.references is not None and (
            row.get("kind") == KIND or any(type(value) in (dict, list) for value in row.values())
        ):
            yield from _rows(call.references.load(row, name), name)
        else:
            yield row


def json_rows(body: Iterable[bytes], form: str, where: str) -> Iterator[Row]:
    """Yield the rows of JSON lines, or of a JSON array (or one row), that comes in pieces. Raises `BadInput`."""
    for row in _lines(body, where) if form == "jsonl" else _array(body, where):
        if isinstance(row, list):  # pages that are lists of rows
            yield from _rows(row, where)
        elif isinstance(row, Mapping):
            yield row
        else:
            raise BadInput(f"{where} holds {row!r:.40}, which is not a row")


def _lines(body: Iterable[bytes], where: str) -> Iterator[Any]:
    rest, number = b"", 0
    for piece in body:
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_ROW:
            raise BadInput(f"{where}: line {number + len(lines) + 1} has more than {MAX_ROW} bytes")
        for line in lines:
            number += 1
            if line.strip():
                yield _parsed(line, f"{where}: line {number}")
    if rest.strip():
        yield _parsed(rest, f"{where}: line {number + 1}")


def _parsed(text: bytes, where: str) -> Any:
    try:
        return _DECODER.decode(text.decode())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where} is not JSON: {error}") from error


def _array(body: Iterable[bytes], where: str) -> Iterator[Any]:
    """Yield the elements of an array, or the one value that it is instead."""
    text = _Text(body, where)
    if text.peek() != "[":
        if text.peek():
            yield text.value()
    else:
        text.skip()
        while text.peek() != "]":
            yield text.value()
            if text.peek() == ",":
                text.skip()
            elif text.peek() != "]":
                raise BadInput(f"{where} is not JSON: the array does not end")
        text.skip()
    if text.peek():
        raise BadInput(f"{where} is not JSON: more follows after its end")


class _Text:
    """JSON text that comes in pieces."""

    def __init__(self, body: Iterable[bytes], where: str) -> None:
        self._decoded = codecs.iterdecode(iter(body), "utf-8")
        self._held, self._at, self._where = "", 0, where

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._held):
                if self._held[self._at] not in " \t\r\n":
                    return self._held[self._at]
                self._at += 1
            if not self._more(1):
                return ""

    def skip(self) -> None:
        self._at += 1

    def value(self) -> Any:
        """Return the value that begins here."""
        self.peek()
        size = 1
        while True:
            try:
                value, end = _DECODER.raw_decode(self._held, self._at)
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError) or not self._more(size):
                    raise BadInput(f"{self._where} is not JSON: {error}") from error
                size *= 2  # a value longer than one piece is not parsed again for each piece
                continue
            if end == len(self._held) and self._held[self._at] not in '{["' and self._more(1):
                continue  # a number may continue
            self._at = end
            return value

    def _more(self, pieces: int) -> bool:
        """Take further pieces; return False at the end."""
        self._held, self._at = self._held[self._at :], 0
        if len(self._held) > MAX_ROW:
            raise BadInput(f"{self._where}: a row has more than {MAX_ROW} bytes")
        try:
            taken = [piece for _, piece in zip(range(pieces), self._decoded, strict=False)]
        except UnicodeDecodeError as error:
            raise BadInput(f"{self._where} is not UTF-8: {error.reason}") from error
        self._held += "".join(taken)
        return bool(taken)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)

__all__ = ["Part", "format_of", "json_rows", "object_bytes", "object_file", "parts_of", "rows_of"]
