"""The time that a piece of work has."""

from __future__ import annotations

import time
from typing import Final

from noetl_core.values.frozen import frozen


class OutOfTime(BaseException):
    """The deadline of a piece of work has passed. As after a crash, a commit that is stored by then stays stored.

    It is a `BaseException`, as `asyncio.CancelledError` is, so that no `except Exception` on the way handles it. Who acts: the
    function that set the deadline.
    """


@frozen
class Deadline:
    """The instant by which a piece of work must end. The work checks it between its rounds, before it evaluates a template and
    before each request."""

    at_s: float
    """In seconds of the monotonic clock."""
    limit_s: float
    """The seconds that the work had from its beginning on."""

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline that many seconds from now."""
        return cls(time.monotonic() + seconds, seconds)

    def check(self) -> None:
        """Raise `OutOfTime` if the deadline has passed."""
        if time.monotonic() >= self.at_s:
            raise OutOfTime(f"it took longer than {self.limit_s:g} s")


NEVER: Final = Deadline(float("inf"), float("inf"))
