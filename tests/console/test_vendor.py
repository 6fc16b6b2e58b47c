"""The libraries that the console and its tests stand on are what the lock says, with their licences."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from hashlib import sha256
from os.path import normpath
from pathlib import Path, PurePosixPath

import pytest

from noetl_console.assets import SCHEMA, STATIC, assets, sent

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "console/vendor/package-lock.json"
EDITOR = "vendor/codemirror.js"
STATIC_IMPORT = r'^import [^"]*"(\.[^"]+)"'
served = cache(assets)
DYNAMIC_IMPORT = r'\bimport\("(\.[^"]+)"\)'
MAX_FIRST, MAX_OPENED, MAX_SCRIPT = 27 * 1024, 64 * 1024, 112 * 1024
"""Bytes of script, compressed and without the editor: what the first page loads, what any page has loaded when it is opened by its
address, and all modules together. A tab or a dialog that is not shown at once loads its module when it is opened."""


@pytest.mark.parametrize("folder", [STATIC / "vendor", ROOT / "tests/console/vendor"], ids=["console", "tests"])
def test_vendored_files_match_their_checksums(folder: Path) -> None:
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


def imported(name: str, pattern: str) -> set[str]:
    """Modules that one imports: `STATIC_IMPORT` with it, `DYNAMIC_IMPORT` when something is opened."""
    named = re.findall(pattern, served()[name].body.decode(), re.MULTILINE)
    return {normpath((PurePosixPath(name).parent / each).as_posix()) for each in named}


def loaded(name: str) -> set[str]:
    """A module and all that the browser loads with it."""
    found, left = set(), {name}
    while left:
        found.add(one := left.pop())
        left |= imported(one, STATIC_IMPORT) - found
    return found


def test_pages_need_little_script() -> None:
    """The first page, each that is loaded when it is opened, and all of them; compressed file by file, as a gateway does."""
    modules = {n for n in served() if n.endswith(".js")}
    openers = {(name, each) for name in modules for each in imported(name, DYNAMIC_IMPORT) - {EDITOR}}
    opened = {each for _, each in openers}
    assert set().union(*(loaded(name) for name in opened), loaded("main.js")) == modules - {EDITOR}
    assert len(opened) > 5
    size = {n: len(gzip.compress(served()[n].body, 6)) for n in modules - {EDITOR}}
    first = loaded("main.js")
    assert sum(size[n] for n in first) < MAX_FIRST
    for opener, page in openers:  # a tab, with the page that contains it
        assert sum(size[n] for n in loaded(page) | loaded(opener) | first) < MAX_OPENED, page
    assert sum(size.values()) < MAX_SCRIPT, sorted(size.items(), key=lambda each: -each[1])


def test_modules_are_served_without_comments_and_with_unchanged_code() -> None:
    for name, asset in served().items():
        file = STATIC / name
        if name == SCHEMA:
            continue
        if file.suffix != ".js" or name.startswith("vendor/"):
            assert asset.body == file.read_bytes()
            continue
        was, now = file.read_text().splitlines(), asset.body.decode().splitlines()
        assert len(was) == len(now)
        template = False
        for before, after in zip(was, now, strict=True):
            code, _, comment = before.partition(after) if after else ("", "", before)
            assert not code.strip(), f"{name}: {before}"
            if comment:
                assert comment.lstrip()[:2] in ("//", "/*") or not after, "a comment is left out whole"
                assert not template, f"{name}: a template has a line that looks like a comment: {before}"
            template ^= after.replace("\\`", "").count("`") % 2 == 1
    assert (
        sent(b'  a = 1; // left out\n  // so\n/** and\n * this */\nb = `c; // d`;\ne("f; // g");\n')
        == b'a = 1;\n\n\n\nb = `c; // d`;\ne("f; // g");\n'
    )
