"""Reads stored objects of an execution in pieces that fit an answer. References in its values point to them."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from noetl_core.control.core import Control
from noetl_core.log.stored_values import Family, Values
from noetl_core.ports import CorruptLog, NotFound
from noetl_core.views.executions import executions

if TYPE_CHECKING:
    from noetl_core.api.shapes import views as view_shapes

PIECE: Final = 3 * 1024 * 1024
"""Bytes of an object in one answer. Base64 text is a third longer, and Lambda answers at most 6 MB."""
NO_VALUES: Final = ("commits", "logs")
"""Folders that contain no values."""


def object_piece(control: Control, execution_id: str, key: str, start: int = 0) -> view_shapes.ObjectPiece:
    """Return a piece of a stored value of the execution, or of its family. Raises `NotFound`."""
    executions.load(control, execution_id)
    parts = key.split("/")
    if len(parts) < 2 or parts[1] in NO_VALUES or not Family(control.store, execution_id).has(key):
        raise NotFound(f"execution {execution_id} has no value {key[:200]}")
    piece = control.results.get(key, start, start + PIECE)
    return {"data": b64encode(piece).decode(), "next": start + len(piece) if len(piece) == PIECE else None}


def page_result(control: Control, execution_id: str, run: str, seq: int) -> view_shapes.PageResult:
    """Return the results of one chunk of a loop, to which the manifest of the loop's results points. Raises `NotFound`."""
    executions.load(control, execution_id)
    try:
        return {"result": Values(control.store, control.results, execution_id).boundary(run, seq).get("result")}
    except CorruptLog:
        raise NotFound(f"execution {execution_id} has no commit {seq} of run {run[:200]}") from None
