"""Outlines JSON objects while they are written, in any formatting."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Self

from noetl_core.log.stored_values import with_outline
from noetl_core.ports import ObjectWriter, ResultStore
from noetl_core.values.outlines import JsonOutline, LineOutline

FORMS: Final = ("json", "jsonl")


def outlined(out: ObjectWriter, results: ResultStore, form: str) -> ObjectWriter:
    """Return `out`, wrapped for JSON and JSON lines in a writer that also stores an outline, by which templates read parts."""
    return _Outlined(out, results, JsonOutline() if form == "json" else LineOutline()) if form in FORMS else out


class _Outlined:
    """`ObjectWriter` over `out`. Content that is masked while written has no outline."""

    def __init__(self, out: ObjectWriter, results: ResultStore, outline: JsonOutline | LineOutline) -> None:
        self._out, self._results, self._outline, self._digest = out, results, outline, sha256()

    def __enter__(self) -> Self:
        self._out.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._out.__exit__(*error)

    def write(self, data: bytes) -> None:
        self._out.write(data)
        self._outline.write(data)
        self._digest.update(data)

    def finish(self) -> Mapping[str, Any]:
        reference = dict(self._out.finish())
        checksum = f"sha256:{self._digest.hexdigest()}"
        if reference["checksum"] != checksum:
            return reference
        reference = with_outline(self._results, reference, self._outline.finish(checksum))
        shape = self._outline.shape()
        return reference if shape is None else {**reference, "schema_hint": shape}
