"""A snapshot of another form of the state has another version, so that no other code reads it."""

from __future__ import annotations

from hashlib import sha256

from noetl_core.engine import done_chunks, state
from noetl_core.engine.fold.control_stream import REDUCER

FORM = {14: "bb20b151e011"}
"""The digest of the state's form, by the version of the fold."""


def form() -> str:
    """Return a digest of the classes of which a state consists, with their attributes."""
    kinds = [kind for module in (state, done_chunks) for kind in vars(module).values() if isinstance(kind, type)]
    own = [kind for kind in kinds if kind.__module__ in (state.__name__, done_chunks.__name__)]
    return sha256(
        repr(sorted((kind.__name__, sorted(vars(kind).get("__annotations__", ()))) for kind in own)).encode()
    ).hexdigest()[:12]


def test_another_form_of_the_state_has_another_version() -> None:
    remedy = (
        f"the state has another form: raise REDUCER (engine/fold/control_stream.py), enter the former version in READABLE if"
        f" `restore` (engine/snapshots.py) still reads its snapshots, and enter {form()!r} in FORM"
    )
    assert FORM.get(REDUCER) == form(), remedy
