"""The garbage collector during a cold start. A handler imports this module before all others, and calls `imported` when it is
made.

What modules make when they are imported stays: looking through it for garbage again and again takes a tenth of the import.
"""

from __future__ import annotations

import gc

gc.disable()


def imported() -> None:
    """Let the collector work from here on, on what is made from here on."""
    gc.freeze()
    gc.enable()
