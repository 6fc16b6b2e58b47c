"""`noetl get`: a result as a file, in constant memory. References in it are replaced by their values."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_core.values.result_refs import MARK, is_reference

if TYPE_CHECKING:
    from noetl_core.api.requests import Api

SEARCHED: Final = 64 * 1024 * 1024
"""The largest object that is searched for references; a larger one is written unchanged."""
LINES: Final = (".jsonl", ".ndjson")


def download(api: Api, execution_id: str, step: str | None, to: str, *, force: bool) -> None:
    """Write the result to the file `to` (`-`: standard output). Raises `Exit`."""
    value = _result(api.execution(execution_id), execution_id, step)
    if to == "-":
        _write(api, execution_id, value, sys.stdout.buffer, lines=False)
        sys.stdout.buffer.flush()
        return
    file = Path(to)
    if file.is_dir():
        raise Exit(USAGE, f"{to} is a folder: name the file")
    if file.exists() and not force:
        raise Exit(USAGE, f"{to} is there already: --force writes over it")
    try:
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        try:
            with os.fdopen(handle, "wb") as out:
                _write(api, execution_id, value, out, lines=file.suffix in LINES)
            Path(draft).chmod(0o666 & ~_umask())
            Path(draft).replace(file)
        finally:
            with suppress(FileNotFoundError):
                Path(draft).unlink()
    except OSError as error:
        raise Exit(FAILED, f"{to}: {error.strerror or error}") from None
    say(f"{to}: {file.stat().st_size:,} bytes")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _result(summary: Mapping[str, Any], execution_id: str, step: str | None) -> Any:
    """Return the requested result from the summary."""
    if step is None:
        if summary["status"] != "completed":
            raise Exit(FAILED, f"execution {execution_id} is {summary['status']}: only a completed execution has a result")
        return summary["result"]
    steps = summary["steps"]
    if step not in steps:
        raise Exit(USAGE, f"execution {execution_id} has no step {step}: it has {', '.join(sorted(steps)) or 'none yet'}")
    if steps[step]["status"] != "ok":
        raise Exit(FAILED, f"step {step} is {steps[step]['status']}: only a step that ended ok has a result")
    return steps[step]["result"]


def _write(api: Api, execution_id: str, value: Any, out: BinaryIO, *, lines: bool) -> None:
    if is_reference(value):
        if _is_manifest(value):
            items = _items(api, execution_id, value)
            _list(api, execution_id, items, out, lines=lines)
        elif lines and str(value.get("format", "json")) == "json" and isinstance(value.get("schema_hint"), dict):
            _write(api, execution_id, loaded(api, execution_id, value), out, lines=True)
            return
        else:
            _object(api, execution_id, value, out, whole=True)
            return
    elif lines and isinstance(value, list):
        _list(api, execution_id, iter(value), out, lines=True)
    else:
        write_json(api, execution_id, value, out)
    if not lines:
        out.write(b"\n")


def _list(api: Api, execution_id: str, items: Iterator[Any], out: BinaryIO, *, lines: bool) -> None:
    out.write(b"" if lines else b"[")
    for n, item in enumerate(items):
        if n and not lines:
            out.write(b",")
        write_json(api, execution_id, item, out)
        if lines:
            out.write(b"\n")
    out.write(b"" if lines else b"]")


def write_json(api: Api, execution_id: str, value: Any, out: BinaryIO) -> None:
    """Write a value as JSON, with its references resolved."""
    if is_reference(value):
        if _is_manifest(value):
            _list(api, execution_id, _items(api, execution_id, value), out, lines=False)
        elif str(value.get("format", "json")) in ("csv", "parquet"):
            out.write(_text(value))  # not JSON; `noetl get` of this result alone writes the file
        elif str(value.get("format", "json")) == "jsonl" or str(value["key"]).endswith(".jsonl"):
            _list(api, execution_id, iter(loaded(api, execution_id, value)), out, lines=False)
        else:
            _object(api, execution_id, value, out, whole=False)
    elif isinstance(value, dict):
        out.write(b"{")
        for n, (key, part) in enumerate(value.items()):
            out.write((b"," if n else b"") + _text(key) + b":")
            write_json(api, execution_id, part, out)
        out.write(b"}")
    elif isinstance(value, list):
        _list(api, execution_id, iter(value), out, lines=False)
    else:
        out.write(_text(value))


def _object(api: Api, execution_id: str, ref: Mapping[str, Any], out: BinaryIO, *, whole: bool) -> None:
    """Write a stored object: unchanged, or with its references resolved."""
    if int(ref.get("size") or 0) <= SEARCHED and str(ref.get("format", "json")) == "json":
        body = b"".join(_pieces(api, execution_id, ref))
        if MARK in body:
            write_json(api, execution_id, json.loads(body), out)
        else:
            out.write(body)
    else:
        for piece in _pieces(api, execution_id, ref):
            out.write(piece)
    if whole and str(ref.get("format", "json")) == "json":
        out.write(b"\n")


def _pieces(api: Api, execution_id: str, ref: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the object in pieces. Raises `Exit` after the last one if its checksum is not that of the reference."""
    start: int | None = 0
    digest = sha256()
    while start is not None:
        answer = api.object_piece(execution_id, str(ref["key"]), start)
        piece = b64decode(answer["data"])
        digest.update(piece)
        yield piece
        start = answer["next"]
    if ref.get("checksum") not in (None, f"sha256:{digest.hexdigest()}"):
        raise Exit(FAILED, f"the object {ref['key']} is not what was stored when the reference was made: its checksum differs")


def whole(api: Api, execution_id: str, value: Any) -> Any:
    """Return a value with its references replaced; a reference to a file that is not JSON stays."""
    out = BytesIO()
    write_json(api, execution_id, value, out)
    return json.loads(out.getvalue())


def loaded(api: Api, execution_id: str, ref: Mapping[str, Any]) -> Any:
    body = b"".join(_pieces(api, execution_id, ref))
    if ref.get("format") == "jsonl" or str(ref["key"]).endswith(".jsonl"):
        return [json.loads(line) for line in body.splitlines() if line.strip()]
    return json.loads(body)


def resolved(api: Api, execution_id: str, ref: Mapping[str, Any]) -> Any:
    """Return the value of a reference; references in it stay. Raises `Exit` for CSV and Parquet."""
    if _is_manifest(ref):
        return list(_items(api, execution_id, ref))
    if (form := str(ref.get("format", "json"))) not in ("json", "jsonl"):
        raise Exit(FAILED, f"the object {ref['key']} is a file of format {form}: only JSON is loaded here")
    return loaded(api, execution_id, ref)


def _is_manifest(ref: Mapping[str, Any]) -> bool:
    return ref.get("schema_hint") == "manifest"


def _items(api: Api, execution_id: str, ref: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the results of a loop, page by page. A manifest of a child names runs of the child."""
    owner = str(ref["key"]).partition("/")[0]
    for part in loaded(api, execution_id, ref):
        page = part["result"] if "result" in part else api.page_result(owner, part["run"], part["seq"])["result"]
        if is_reference(page):
            page = _items(api, owner, page) if _is_manifest(page) else loaded(api, owner, page)
        yield from page or ()


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
