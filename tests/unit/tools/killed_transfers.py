"""Transfers into PostgreSQL whose process ends in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from noetl_core.tools.transfer.postgres_target import PostgresTarget
from noetl_core.tools.transfer.target import Progress


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def killed_at(chunk: int, when: str, last: int = 10) -> Iterator[None]:
    """Kill the process within the block: `before` or `after` it has written a chunk, of which number `last` is the end."""
    write, finish = PostgresTarget.write, PostgresTarget.finish

    def killed(target: PostgresTarget, rows: Any, before: Progress) -> Progress:
        if when == "before" and before.chunks == chunk:
            raise Killed
        after = write(target, rows, before)
        if before.chunks == chunk:
            raise Killed
        return after

    def killed_at_the_end(target: PostgresTarget, before: Progress) -> Progress:
        if when == "before" and chunk == last:
            raise Killed
        after = finish(target, before)
        if chunk == last:
            raise Killed
        return after

    with pytest.MonkeyPatch.context() as dying, pytest.raises(Killed):
        dying.setattr(PostgresTarget, "write", killed)
        dying.setattr(PostgresTarget, "finish", killed_at_the_end)
        yield
