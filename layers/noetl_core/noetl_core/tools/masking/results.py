"""The result store for tools with secret inputs: it masks the secrets in stored objects of any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from noetl_core.ports import ObjectWriter, ResultStore
from noetl_core.tools.masking.scrub import Scrubber

STEP: Final = 1 << 20
"""Bytes that are searched at a time."""


class ScrubbedResults:
    """`ResultStore` over `results`. Pieces of an object that were written before a secret was known are not searched for it."""

    def __init__(self, results: ResultStore, scrubber: Scrubber, step: int = STEP) -> None:
        self._results, self._scrubber, self._step = results, scrubber, step
        self.get, self.url = results.get, results.url

    def put(self, key: str, body: bytes, content_type: str = "application/json") -> Mapping[str, Any]:
        return self._results.put(key, _masked(self._scrubber, body), content_type)

    def writer(self, key: str, content_type: str = "application/json") -> ObjectWriter:
        return _ScrubbedWriter(self._results.writer(key, content_type), self._scrubber, self._step)


class _ScrubbedWriter:
    """`ObjectWriter` over `out`. It holds back a possible beginning of a secret."""

    def __init__(self, out: ObjectWriter, scrubber: Scrubber, step: int) -> None:
        self._out, self._scrubber, self._step = out, scrubber, step
        self._held = bytearray()

    def __enter__(self) -> Self:
        self._out.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._out.__exit__(*error)

    def write(self, data: bytes) -> None:
        if not self._scrubber and not self._held:
            self._out.write(data)
            return
        self._held += data
        if len(self._held) < self._step:
            return
        text = self._held.decode("latin-1")
        settled = self._scrubber.settled(text)
        if settled:
            self._out.write(_masked(self._scrubber, bytes(self._held[:settled])))
            del self._held[:settled]

    def finish(self) -> Mapping[str, Any]:
        rest = bytes(self._held)
        self._held.clear()
        if rest:
            self._out.write(_masked(self._scrubber, rest))
        return self._out.finish()


def _masked(scrubber: Scrubber, body: bytes) -> bytes:
    """Return `body` with every known secret masked; `body` itself where there is none."""
    if not scrubber:
        return body
    text = body.decode("latin-1")
    masked = scrubber.body(text)
    return body if masked == text else masked.encode("latin-1")
