"""The errors of the ports; the docstring of `ports` lists who must act."""

from __future__ import annotations

from noetl_core.engine.records import Commit


class PortError(Exception):
    """Base class of all errors of ports."""


class Conflict(PortError):
    """The condition of a write failed, because another writer was first. `existing` is the stored item, when the store
    returns it."""

    def __init__(self, message: str, existing: Commit | None = None) -> None:
        super().__init__(message)
        self.existing = existing


class NotFound(PortError):
    """There is no such item."""


class Unavailable(PortError):
    """The service did not answer, or throttled. Try again later."""


class StorageFailed(Unavailable):
    """The storage of this machine cannot be written: full, read-only or broken. Its owner must act before a retry helps."""


class TooLarge(PortError):
    """The value exceeds what the service accepts."""


class Forbidden(PortError):
    """The item exists, but the caller may not have it. Who acts: the operator, who grants rights."""


class MissingPackages(PortError):
    """The packages that a playbook requires are not installed. Who acts: the operator, who deploys; the message says how."""


class AskFailed(Unavailable):
    """A worker's ask was not answered; the stream routes the boundary. `may_be_done` is true if the ask may have been carried
    out, so that it is worth repeating."""

    def __init__(self, reason: str, message: str, *, may_be_done: bool = False) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.may_be_done = reason, may_be_done


class NewerLog(Unavailable):
    """A commit requires a newer reader: a release is being rolled out, or was rolled back. The execution waits for code that can
    read it."""


class CorruptLog(PortError):
    """The log contains something that this reader must not interpret."""


class UnreadableStore(CorruptLog):
    """The local store is not one that this version reads: no database, another schema, or damaged. Its owner must act."""
