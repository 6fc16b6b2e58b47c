"""Objects put into the inbox bucket: `triggers/<playbook path>/...` starts, `playbooks/...` registers (CONTRACT "S3")."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from noetl_core.control.admit import KeyReused, StartRequest, admit, register
from noetl_core.control.core import Control
from noetl_core.dsl.diagnostics import InvalidPlaybook
from noetl_core.ports import NotFound, PlaybookVersion

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Upload:
    """One put, as its notification tells it. `version_id` (or `sequencer`) is what makes one put differ from the next."""

    bucket: str
    key: str
    size: int = 0
    etag: str = ""
    version_id: str | None = None
    sequencer: str | None = None

    @property
    def identity(self) -> str:
        """Equal for every delivery of the same put, different for every put."""
        mark = self.version_id if self.version_id not in (None, "", "null") else self.sequencer or self.etag
        return f"s3:{self.bucket}/{self.key}@{mark}"


def take_upload(control: Control, upload: Upload, read: Callable[[Upload], str]) -> str:
    """Start or register what was uploaded; says what became of it. However often the notification comes, it happens once.

    An upload that names no playbook, or holds an invalid one, is reported and done with: trying again would not help.
    """
    folder, _, rest = upload.key.partition("/")
    if folder == "playbooks" and rest:
        try:
            _, version = register(control, read(upload), upload.key)
        except InvalidPlaybook as error:
            log.error("upload %s is not a valid playbook: %s", upload.key, error)
            return f"refused: {error}"
        return f"registered {version.path} version {version.version}"
    if folder != "triggers":
        return "ignored: the key is under neither triggers/ nor playbooks/"
    version_or_none = _playbook_of(control, rest)
    if version_or_none is None:
        log.error("upload %s: no playbook is registered under any beginning of %s", upload.key, rest)
        return f"refused: no playbook is registered for {rest!r}"
    s3 = {"bucket": upload.bucket, "key": upload.key, "size": upload.size, "etag": upload.etag, "version_id": upload.version_id}
    request = StartRequest(digest=version_or_none.digest, payload={"s3": s3}, idempotency_key=upload.identity)
    try:
        return f"started {admit(control, request).execution_id}"
    except KeyReused:
        return "started before"  # the path's latest version has moved since the first delivery


def _playbook_of(control: Control, rest: str) -> PlaybookVersion | None:
    """The playbook with the longest path that the key begins with; the last part of the key is the file's own name."""
    parts = rest.split("/")
    for end in range(len(parts) - 1, 0, -1):
        try:
            return control.catalog.get("/".join(parts[:end]))
        except NotFound:
            continue
    return None
