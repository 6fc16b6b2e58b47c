"""Outlines of large stored values: the byte ranges of their parts, so that readers load single parts (docs/language/results.md).

* `building`: `outline_of` a value and its JSON text, `LineOutline` of JSON lines.
* `streaming`: `JsonOutline` of JSON text in any formatting, built while it is written.
* `form`: the stored format of an outline, and its `Container`s; `Span`s of containers are loaded together.
* `part`: `Part`, a container that is loaded lazily.
* `paged`: the same for a list in pages.

Pure: nothing here reads or writes; callers with a result store write outlines and load spans.
"""

from noetl_core.values.outlines.building import LineOutline, outline_of
from noetl_core.values.outlines.form import (
    MOST_OUTLINE_BYTES,
    OUTLINED,
    Container,
    Span,
    checksum_of,
    outline_key,
    outlined,
    read_outline,
)
from noetl_core.values.outlines.paged import Page, PagedPart, Pages, PageSource
from noetl_core.values.outlines.part import OutlinedPart, Part, PartSource
from noetl_core.values.outlines.streaming import JsonOutline

__all__ = [
    "MOST_OUTLINE_BYTES",
    "OUTLINED",
    "Container",
    "JsonOutline",
    "LineOutline",
    "OutlinedPart",
    "Page",
    "PageSource",
    "PagedPart",
    "Pages",
    "Part",
    "PartSource",
    "Span",
    "checksum_of",
    "outline_key",
    "outline_of",
    "outlined",
    "read_outline",
]
