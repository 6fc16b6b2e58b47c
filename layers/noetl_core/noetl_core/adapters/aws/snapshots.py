"""Lambda SnapStart: many environments go on from one snapshot of a process that has loaded its function.

What the snapshot holds, all of them hold: it is taken after the import of the handler, and by then nothing may be drawn, dated or
connected. So it has modules and descriptions of services, no clients, credentials, nonces or names: those are made when they are
first asked for, in the environment that asks. Numbers that must differ come from the kernel (`secrets`, `os.urandom`), which AWS
seeds anew for each environment; the generator of `random` is seeded here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable

from noetl_core.adapters.aws.clients import forget_clients, load_services


def on_snapshots(*services: str, disconnect: Callable[[], None] | None = None) -> None:
    """Have the runtime call us before the snapshot and after each restore, where the function starts from snapshots. `services`
    are those whose clients it will need; `disconnect` closes what else may be connected by then."""
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "snap-start":
        return
    from snapshot_restore_py import register_after_restore, register_before_snapshot  # 1 ms: Lambda's runtime alone has it

    register_before_snapshot(_prepare, services, disconnect)
    register_after_restore(renew)


def _prepare(services: Iterable[str], disconnect: Callable[[], None] | None) -> None:
    load_services(services)
    if disconnect is not None:
        disconnect()


def renew() -> None:
    """Leave nothing of the snapshot in use that another environment could have, too, or that has aged in it."""
    random.seed()
    forget_clients()
