"""What became of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of a command. A queue may forget it in any case: what a dropped one was for goes on elsewhere, and of what is
    handed back (another worker holds it, for `seconds` yet) the sweeper has it taken over. Who wants to be sooner asks again."""

    kind: Literal["done", "suspended", "dropped", "hand_back"]
    reason: str = ""
    seconds: float = 0.0
    holder: str = ""
    """The worker that holds it, of one that is handed back."""
