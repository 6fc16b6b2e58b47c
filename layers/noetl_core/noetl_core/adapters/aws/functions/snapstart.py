"""Lambda SnapStart: many environments start from one snapshot of a process that has loaded its function.

All environments share the contents of the snapshot, which is taken after the import of the handler. By then no random number may
be drawn, no time read and no connection made. The snapshot has modules and service descriptions, but no clients, credentials,
nonces or names: each environment creates those on first use. Numbers that must differ come from the kernel (`secrets`,
`os.urandom`), which AWS seeds for each environment; the generator of `random` is seeded here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable

from noetl_core.adapters.aws.clients import forget_clients, load_services


def on_snapshots(*services: str, disconnect: Callable[[], None] | None = None) -> None:
    """Register the hooks before the snapshot and after each restore, if the function uses SnapStart. `services` are those whose
    clients it needs; `disconnect` closes other connections."""
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "snap-start":
        return
    from snapshot_restore_py import register_after_restore, register_before_snapshot  # 1 ms: only Lambda's runtime has it

    register_before_snapshot(_prepare, services, disconnect)
    register_after_restore(renew)


def _prepare(services: Iterable[str], disconnect: Callable[[], None] | None) -> None:
    load_services(services)
    if disconnect is not None:
        disconnect()


def renew() -> None:
    """Drop the parts of the snapshot that environments must not share, or that may be out of date."""
    random.seed()
    forget_clients()
