"""A plugin of pytest for `python -m tests`: the process ends without a last collection of garbage, which takes a second.

Libraries that count their objects report those as leaks, so a plain `pytest` does not load it.
"""

from __future__ import annotations

import gc


def pytest_unconfigure() -> None:
    """Take all objects out of the collections that the interpreter makes while it ends."""
    gc.freeze()
