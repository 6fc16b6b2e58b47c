"""What became of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of a command.

    The queue may delete the message in any case. What a dropped command asked for is done elsewhere. A command that is handed
    back is one whose run another worker holds for `seconds` more; the sweeper has the run taken over later. A caller who
    wants that sooner sends the command again. A loop of which other workers run the rest is `spread`; the reason says why.
    """

    kind: Literal["done", "suspended", "spread", "dropped", "hand_back"]
    reason: str = ""
    seconds: float = 0.0
    holder: str = ""
    """The worker that holds the run, when a command is handed back."""
