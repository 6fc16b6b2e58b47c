"""The libraries that the console and its tests stand on are what the lock says, with their licences."""

from __future__ import annotations

import gzip
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

from noetl_console.assets import STATIC, assets

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "console/vendor/package-lock.json"
MAX_SCRIPT = 80 * 1024
"""Bytes of script, compressed, that a page may need without the editor."""


@pytest.mark.parametrize("folder", [STATIC / "vendor", ROOT / "tests/console/vendor"], ids=["console", "tests"])
def test_what_is_there_is_what_was_built(folder: Path) -> None:
    sums = {line.split()[1]: line.split()[0] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    files = {f.name for f in folder.iterdir()} - {"SHA256SUMS"}
    assert files == set(sums)
    for name, expected in sums.items():
        assert sha256((folder / name).read_bytes()).hexdigest() == expected, name


def test_each_package_has_a_hash_in_the_lock_and_a_licence() -> None:
    packages = {n.removeprefix("node_modules/"): p for n, p in json.loads(LOCK.read_text())["packages"].items() if n}
    assert all(p["integrity"].startswith("sha512-") for p in packages.values())
    told = set(re.findall(r"^== (\S+) \S+$", (STATIC / "vendor/LICENSES.txt").read_text(), re.MULTILINE))
    assert told == {name for name, p in packages.items() if not p.get("dev")}
    assert packages["codemirror"]["version"] == "6.0.2"


def test_a_page_needs_little_script() -> None:
    """All of it, compressed file by file, but the editor."""
    scripts = {n: len(gzip.compress(a.body, 9)) for n, a in assets().items() if n.endswith(".js") and n != "vendor/codemirror.js"}
    assert sum(scripts.values()) < MAX_SCRIPT, sorted(scripts.items(), key=lambda s: -s[1])[:10]
