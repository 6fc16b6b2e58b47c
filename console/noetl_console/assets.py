"""The pages: static files, read once and found by name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

STATIC = Path(__file__).parent / "static"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}
"""Files of other kinds are not served."""
SCHEMA = "playbook.schema.json"
"""The schema of playbooks, made of the language's tables: the editor completes and explains with it."""
LIBRARIES = "vendor"
COMMENT = re.compile(rb"^[ \t]*(?://[^\n]*|/\*.*?\*/[ \t]*)$", re.MULTILINE | re.DOTALL)
"""A comment on lines of its own. No template literal of a module has such a line."""
AROUND = re.compile(rb"^[ \t]+|(?<=[;,{}()\[\]]) +// [^\n`\"]*$", re.MULTILINE)
"""The indentation of a line, and a comment after its code. Templates of htm ignore the first; no template has the second."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file in the form in which it is sent."""

    content_type: str
    etag: str
    body: bytes


def assets(folder: Path = STATIC) -> dict[str, Asset]:
    """Return every file below `folder` by its URL path. Requests are only looked up in this mapping; their paths are never joined
    to a folder."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix in TYPES and file.is_file():
            name = file.relative_to(folder)
            body = sent(file.read_bytes()) if file.suffix == ".js" and LIBRARIES not in name.parts else file.read_bytes()
            found[name.as_posix()] = asset(file.suffix, body)
    found[SCHEMA] = _schema()
    return found


@cache
def _schema() -> Asset:
    from noetl_core.dsl.schema import playbook_schema  # 150 ms: only a process that serves pages needs it

    return asset(".json", json.dumps(playbook_schema(), separators=(",", ":")).encode())


def asset(suffix: str, body: bytes) -> Asset:
    """Return the asset of a content, whose kind is that of the suffix."""
    return Asset(TYPES[suffix], f'"{sha256(body).hexdigest()[:32]}"', body)


def sent(module: bytes) -> bytes:
    """Return a module without its comments and indentation, which every page would load otherwise. Lines keep their numbers."""
    return AROUND.sub(b"", COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), module))
