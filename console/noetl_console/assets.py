"""The pages: static files, read once, found by their names alone."""

from __future__ import annotations

from dataclasses import dataclass
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
}
"""Files of other kinds are not served."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent."""

    content_type: str
    etag: str
    body: bytes


def assets(folder: Path = STATIC) -> dict[str, Asset]:
    """Every file below `folder` by its path in URLs. What is no key of it does not exist: no path of a request is joined to a
    folder."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix in TYPES and file.is_file():
            body = file.read_bytes()
            found[file.relative_to(folder).as_posix()] = Asset(TYPES[file.suffix], f'"{sha256(body).hexdigest()[:32]}"', body)
    return found
