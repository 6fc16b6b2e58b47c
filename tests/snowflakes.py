"""The fake of Snowflake, of which a process can have one: for as long as the process lasts, or a new one for one test."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_standing = ExitStack()
atexit.register(_standing.close)


@contextmanager
def faked() -> Iterator[None]:
    """With nothing in it."""
    _standing.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the fake about its DuckDB queries
        import fakesnow

        with fakesnow.patch():
            yield


def stand() -> None:
    """In place of the one that stands, if there is one."""
    _standing.close()
    warnings.filterwarnings("ignore", "Arrow output on a DB-API result")  # raised by the fake's DuckDB queries
    import fakesnow

    _standing.enter_context(fakesnow.patch())
