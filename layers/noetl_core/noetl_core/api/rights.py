"""The rights that operations need (docs/access.md)."""

from __future__ import annotations

from typing import Final

READS: Final = "executions:read"
STARTS: Final = "executions:start"
INLINE: Final = "executions:inline"
OPERATES: Final = "executions:operate"
SEES: Final = "playbooks:read"
WRITES: Final = "playbooks:write"
ANSWERS: Final = "callbacks:answer"
CREDENTIALS_READ: Final = "credentials:read"
CREDENTIALS_WRITE: Final = "credentials:write"
SECRETS: Final = "secrets:read"
RIGHTS: Final = {
    READS: "see executions, their histories and values",
    STARTS: "start registered playbooks, and backfills of them",
    INLINE: "start a playbook passed as text, or redrive with one",
    OPERATES: "cancel, pause, resume, redrive, signal",
    SEES: "see and validate playbooks",
    WRITES: "register playbooks; move aliases, tag, delete",
    ANSWERS: "see the tokens of callbacks, and answer",
    CREDENTIALS_READ: "list credentials",
    CREDENTIALS_WRITE: "store and delete credentials",
    SECRETS: "see the contents of credentials",
}
