"""The result of handling a command."""

from __future__ import annotations

from typing import Literal

from noetl_core.values.frozen import frozen


@frozen
class Handled:
    """The result of handling a command.

    The queue may delete the message in any case. `dropped`: the command is obsolete, or others carry it out. `hand_back`:
    another worker holds the run for `seconds` more; the sweeper has the run taken over later, and a caller who wants that sooner
    sends the command again. `spread`: other workers run the rest of the loop; the reason says why.
    """

    kind: Literal["done", "suspended", "spread", "dropped", "hand_back"]
    reason: str = ""
    seconds: float = 0.0
    holder: str = ""
    """The worker that holds the run, when a command is handed back."""
    boundary: int | None = None
    """The position of the boundary with which the run ended."""
