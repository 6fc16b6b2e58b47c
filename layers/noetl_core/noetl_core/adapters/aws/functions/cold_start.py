"""Disables the garbage collector during a cold start. A handler imports this module before all others, and calls `imported` when
its imports are done.

Objects created by imports live as long as the process; scanning them again and again would take a tenth of the import.
"""

from __future__ import annotations

import gc

gc.disable()


def imported() -> None:
    """Enable the collector for objects created from now on."""
    gc.freeze()
    gc.enable()
