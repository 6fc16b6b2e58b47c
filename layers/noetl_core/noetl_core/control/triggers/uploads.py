"""Uploads to the inbox bucket: `triggers/<playbook path>/...` starts an execution, `playbooks/...` registers a playbook
(docs/operating.md).

An execution that an upload starts gets a copy of the object as the reference `workload.s3.object`. So it reads the object
that started it, even when a new object is put under the same key. An upload that cannot be accepted is moved aside with its
error.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from noetl_core.control.admit import KeyReused, StartRequest, UnknownPool, admit, register
from noetl_core.control.catalog.versions import Deleted, resolve
from noetl_core.control.core import Control
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.dsl.reading.load import MAX_BYTES
from noetl_core.dsl.sources import UPLOADS
from noetl_core.dsl.versions import BadVersion, split_version
from noetl_core.engine import ids
from noetl_core.engine.workload import BadWorkload
from noetl_core.events.shapes import MAX_PRINCIPAL, By
from noetl_core.ports import Inbox, NotFound, PlaybookVersion, TooLarge, Upload
from noetl_core.values.result_refs import FORMAT_OF_SUFFIX

log = logging.getLogger(__name__)

MAX_UPLOAD = 20 * 1024**3
"""Maximum size of an upload in bytes: copying it takes well under the time limit of the function."""


class Refused(Exception):
    """The upload cannot be accepted, however often it is tried. Who acts: the uploader."""

    def __init__(self, code: str, message: str, details: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.code, self.details = code, details or []


def is_of_a_path(upload: Upload, bucket: str) -> bool:
    """Return whether the key of an upload names a playbook or a registration: it is in the inbox bucket (`bucket`, empty if there
    is no other), and not in the folder of triggers."""
    return bucket in ("", upload.bucket) and not upload.key.startswith(UPLOADS)


def put_by(upload: Upload) -> By:
    """Return the uploader of an object."""
    return {"principal": (upload.by or f"{upload.bucket}/{upload.key}")[:MAX_PRINCIPAL], "source": "s3"}


def take_upload(control: Control, upload: Upload, inbox: Inbox) -> str:
    """Start or register the upload, and return the result.

    Repeated notifications do it once. Raises `Unavailable`: then the notification is repeated.
    """
    folder, _, rest = upload.key.partition("/")
    control = control.on_behalf_of(put_by(upload))
    try:
        if folder == "playbooks" and rest:
            return _register(control, upload, rest, inbox)
        if folder == "triggers":
            return _start(control, upload, rest, inbox)
    except Refused as why:
        error = {"code": why.code, "message": str(why), "details": why.details}
        inbox.reject(upload, {"key": upload.key, "version_id": upload.version_id, "error": error})
        log.error("upload %s is refused: %s", upload.key, why)
        return f"refused: {why}"
    except NotFound as gone:
        return f"ignored: {gone}"
    return "ignored: the key is under neither triggers/ nor playbooks/"


def _register(control: Control, upload: Upload, rest: str, inbox: Inbox) -> str:
    if upload.size > MAX_BYTES:
        raise Refused("too_large", f"a playbook may have at most {MAX_BYTES // 1024**2} MB; this object has {upload.size} bytes")
    try:
        source = inbox.read(upload).decode()
    except UnicodeDecodeError as error:
        raise Refused(
            "malformed", f"the object is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
        ) from None
    try:
        playbook = control.playbook.parse(source, upload.key)
        folder = rest.rpartition("/")[0]
        if folder and playbook.path != folder and not playbook.path.startswith(f"{folder}/"):
            message = f"metadata.path {playbook.path!r} is not below the folder {folder!r} that the object is in"
            raise Refused("conflict", f"{message}: put the object under playbooks/{playbook.path}/")
        _, version = register(control, source, upload.key)
    except InvalidPlaybook as error:
        raise Refused("invalid_playbook", str(error), [d.as_dict() for d in error.diagnostics]) from None
    except TooLarge as error:
        raise Refused("too_large", str(error)) from None
    return f"registered {version.path} version {version.version}"


def _start(control: Control, upload: Upload, rest: str, inbox: Inbox) -> str:
    execution_id = ids.execution_id_from_key(upload.identity)
    if control.load(execution_id).seq >= 0:
        return "started before"
    version = _playbook_of(control, rest, execution_id)
    if upload.size > MAX_UPLOAD:
        raise Refused("too_large", f"an upload may have at most {MAX_UPLOAD // 1024**3} GB; this object has {upload.size} bytes")
    s3 = {"bucket": upload.bucket, "key": upload.key, "size": upload.size, "etag": upload.etag, "version_id": upload.version_id}
    request = StartRequest(digest=version.digest, payload={"s3": s3}, idempotency_key=upload.identity)
    try:
        s3["object"] = copied(inbox, upload, execution_id)
        return f"started {admit(control, request).execution_id}"
    except BadWorkload as error:
        details = [{"loc": "workload", "message": wrong, "hint": ""} for wrong in error.wrong]
        raise Refused("workload", f"the upload does not start {version.path}: {error}", details) from None
    except UnknownPool as error:
        raise Refused("unknown_pool", str(error)) from None
    except Deleted as error:
        raise Refused("deleted", str(error)) from None
    except KeyReused:
        return "started before"  # the path's latest version has changed since the first delivery


def copied(inbox: Inbox, upload: Upload, execution_id: str) -> Mapping[str, Any]:
    """Return a copy of the object among the execution's own objects; it is the same for every delivery of the same put."""
    suffix = upload.key.rpartition("/")[2].rpartition(".")[2].lower()
    form = FORMAT_OF_SUFFIX.get(suffix)
    reference = inbox.copy(upload, f"{execution_id}/upload/object" + (f".{suffix}" if form else ""))
    return {**reference, "format": form} if form else reference


def _playbook_of(control: Control, rest: str, execution_id: str) -> PlaybookVersion:
    """Return the playbook with the longest path that is a prefix of the key, in the version that `path@prod` names for this
    execution; the last part of the key is the name of the file. Raises `Refused`."""
    parts = rest.split("/")
    why = ""
    for end in range(len(parts) - 1, 0, -1):
        prefix = "/".join(parts[:end])
        try:
            path, version = split_version(prefix)
            return resolve(control, path, version, execution_id)
        except (BadVersion, NotFound) as error:
            if "@" in parts[end - 1]:
                why = why or f": {error}"
    raise Refused("not_found", f"no playbook is registered under any prefix of {rest!r}{why}")
