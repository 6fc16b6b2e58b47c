"""A secret that must come out nowhere, and every way on which it could."""

from __future__ import annotations

import base64
import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from tests.api_requests import ask, routes

CANARY = "Canary-4f1D0b6a2c9e8K7x"


def shapes() -> dict[str, str]:
    raw, half = CANARY.encode(), len(CANARY) // 2
    found = {
        "plain": CANARY,
        "reversed": CANARY[::-1],
        "hex": raw.hex(),
        "url": quote(CANARY, safe=""),
        "base32": base64.b32encode(raw).decode().rstrip("="),
        "first half": CANARY[:half],
        "second half": CANARY[half:],
        "characters": json.dumps(list(CANARY))[1:-1],
        "bytes": json.dumps(list(raw))[1:-1],
    }
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + raw).decode()
        found[f"base64 after {before}"] = encoded[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
    return found


def found_in(text: str) -> list[str]:
    low = text.lower()
    return [name for name, shape in shapes().items() if shape.lower() in low]


def unpacked(value: Any) -> str:
    """A database cell as text, compressed bodies opened."""
    if not isinstance(value, bytes):
        return str(value)
    for packing in (zlib.MAX_WBITS, zlib.MAX_WBITS | 16, -zlib.MAX_WBITS):
        try:
            return zlib.decompress(value, packing).decode("utf-8", "replace")
        except zlib.error:
            continue
    return value.decode("utf-8", "replace")


def ways_out(local: LocalWiring, folder: Path, sent: list[str]) -> dict[str, str]:
    """Everything that left the worker, by where it went."""
    out = {
        f"object {p.relative_to(folder)}": p.read_text("utf-8", "replace") for p in (folder / "results").rglob("*") if p.is_file()
    }
    with sqlite3.connect(folder / "runs.db") as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        for table in tables:
            rows = database.execute(f"SELECT * FROM {table}").fetchall()
            out[f"table {table}"] = "\n".join(unpacked(cell) for row in rows for cell in row)
    database.close()
    out |= {f"message {n}": message for n, message in enumerate(sent)}
    service = Service(lambda: local.control, cursor_key(lambda: local.control), secrets=lambda: local.worker.secrets)  # type: ignore[arg-type,return-value]
    reads = [r.path for r in routes() if r.method == "GET" and "{name+}" not in r.path]
    executions = [h.execution_id for h in local.control.index.heads()]
    for path in reads:
        for execution_id in executions if "{execution_id}" in path else executions[:1]:
            concrete = path.replace("{execution_id}", execution_id).replace("{path+}", "canary/all")
            for query in ({}, {"full": "true"} if path.endswith("/logs") else {}):
                out[f"GET {concrete} {query}"] = ask(service, "GET", concrete, query).text()
    out["credential"] = ask(service, "GET", "/api/credentials/api").text()
    return out
