"""The result of handling a command."""

from __future__ import annotations

from typing import Literal

from noetl_core.values.frozen import frozen


@frozen
class Handled:
    """The result of handling a command.

    The queue may delete the message in any case. `dropped`: the command is obsolete, or others carry it out. `hand_back`:
    another worker holds the run for `seconds` more; the sweeper later sends a takeover; a caller may send the command again for
    an earlier one. `spread`: other workers run the rest of the loop, for the given reason.
    """

    kind: Literal["done", "suspended", "spread", "dropped", "hand_back"]
    reason: str = ""
    seconds: float = 0.0
    holder: str = ""
    """The worker that holds the run, when a command is handed back."""
    boundary: int | None = None
    """The position of the boundary with which the run ended, if its commit states that the worker asks about it."""
