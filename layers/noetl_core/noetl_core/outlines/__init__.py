"""Outlines of large stored values: where their parts lie, so that a reader loads a part alone (docs/language/results.md).

* `building`: `outline_of` a value and its JSON text, `LineOutline` of a text of JSON lines.
* `streaming`: `JsonOutline` of JSON text that passes, however it is written.
* `form`: what an outline is as a stored object, and as `Container`s; `Span`s of containers, which are what is loaded.
* `part`: `Part`, a container of which nothing is loaded before it is asked for.
* `paged`: the same for a list that is kept in pages.

Pure: whoever has a result store stores outlines and loads spans.
"""

from noetl_core.outlines.building import LineOutline, outline_of
from noetl_core.outlines.form import (
    MOST_OUTLINE_BYTES,
    OUTLINED,
    Container,
    Span,
    checksum_of,
    outline_key,
    outlined,
    read_outline,
)
from noetl_core.outlines.paged import Page, PagedPart, Pages, PageSource
from noetl_core.outlines.part import OutlinedPart, Part, PartSource
from noetl_core.outlines.streaming import JsonOutline

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
