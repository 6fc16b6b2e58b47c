"""Tests go through ports and public functions: they neither import nor use a private name of the product, nor replace one, except
those in `EXCEPTIONS`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("layers/noetl_core", "cli", "console", "infra", "functions", "plugins", "bench")
PACKAGE = re.compile(r"noetl_\w+|bench|functions")
PRIVATE = re.compile(r"_[A-Za-z]\w*(?<!_)")
MAYBE = re.compile(r"""[\w\])]\._[A-Za-z]|\bimport\b.*\b_[A-Za-z]|(?<=['".])_[A-Za-z]\w*['"]""")
"""A text without a match uses no private name of anything else."""
PROGRAM = re.compile(r"^ *(?:from|import) (?:noetl_\w+|bench|functions)\b", re.MULTILINE)
"""A string with a match is a program that a test runs in another process."""
OWN = re.compile(
    r"\b(?:self|cls)\.(_[A-Za-z]\w*)|^ *(?:(?:async )?def|class) (_[A-Za-z]\w*)|^ *(_[A-Za-z]\w*)(?=[:,] | = )", re.MULTILINE
)
"""A private name where it is defined, or its own object uses it."""

BUG: Final = "a bug put in on purpose, to prove that a check of the simulator finds it"
BETWEEN: Final = "a run fails after its claim and before its first task, where it calls no port"
EXCEPTIONS: Final = {
    "sim/test_asks.py": {
        "_append": BUG,
        "_claimed": BUG,
        "_fits": BUG,
        "_following": BUG,
        "_is_lost": BUG,
        "_keep": BUG,
        "_mark": BUG,
        "_pending": BUG,
        "_run": BETWEEN,
        "_seq": BUG,
        "_store": BUG,
        "_written_boundary": BUG,
    },
    "sim/test_deadlocks.py": {"_closes_circle": "nobody sees the deadlock when it comes, so that the sweeper must"},
    "unit/migrate/test_text.py": {"_comment": "belongs to the tokens of ruamel.yaml, which show their comments in no other way"},
    "unit/test_local_runner.py": {"_run": BETWEEN},
}
"""The private names that a file may use, each with the reason."""


def defined(text: str) -> set[str]:
    return {name for names in OWN.findall(text) for name in names if name}


@cache
def private_to_the_product() -> frozenset[str]:
    return frozenset(name for folder in PRODUCT for file in (ROOT / folder).rglob("*.py") for name in defined(file.read_text()))


@cache
def texts() -> dict[str, str]:
    folder = ROOT / "tests"
    files = [file for file in sorted(folder.rglob("*.py")) if file != Path(__file__)]  # its examples use such names
    return {str(file.relative_to(folder)): file.read_text() for file in files}


def used(text: str, private: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines and names of the product's private names that a text imports, uses or replaces."""
    if MAYBE.search(text) is None:
        return
    tree = ast.parse(text)
    private = private - defined(text)
    product, other = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = (getattr(node, "module", None) or "").split(".")
            for alias in node.names:
                path = [*filter(None, module), *alias.name.split(".")]
                if PACKAGE.fullmatch(path[0]) and not getattr(node, "level", 0):
                    product.add(alias.asname or (path[0] if isinstance(node, ast.Import) else alias.name))
                    yield from ((node.lineno, part) for part in path if PRIVATE.fullmatch(part))
                else:
                    other.add(alias.asname or (path[0] if isinstance(node, ast.Import) else alias.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            owner = node.value
            own = isinstance(owner, ast.Name) and owner.id in {"self", "cls", *other}
            if not own and (node.attr in private or (isinstance(owner, ast.Name) and owner.id in product)):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("etattr", "delattr", "patch", "patch.object")):
            for argument in node.args[:2]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    *module, name = argument.value.split(".")
                    of_product = (
                        name in private or (module and PACKAGE.fullmatch(module[0])) or ast.unparse(node.args[0]) in product
                    )
                    if PRIVATE.fullmatch(name) and of_product:
                        yield node.lineno, name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PROGRAM.search(node.value):
            with suppress(SyntaxError):  # a template of a program
                yield from ((node.lineno + line - 1, name) for line, name in used(node.value, private))


def test_no_test_uses_a_private_name_of_the_product() -> None:
    found = {file: list(used(text, private_to_the_product())) for file, text in texts().items()}
    assert [
        f"tests/{file}:{line}: {name}"
        for file, names in found.items()
        for line, name in names
        if name not in EXCEPTIONS.get(file, {})
    ] == []
    unused = {file: names.keys() - {name for _, name in found.get(file, ())} for file, names in EXCEPTIONS.items()}
    assert {file: names for file, names in unused.items() if names} == {}, "these need no exception any more"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from noetl_core.dsl.parse import _read", [(1, "_read")]),
        ("from noetl_core._parts import read", [(1, "_parts")]),
        ("from noetl_core.worker import service as s\ns._wait()", [(2, "_wait")]),
        ("from noetl_core.worker.service import Worker\nrun = Worker._wait", [(2, "_wait")]),
        ("def test_x(store):\n    assert store._db", [(2, "_db")]),
        ("def test_x(store):\n    store._db = None", [(2, "_db")]),
        ("def test_x(monkeypatch, store):\n    monkeypatch.setattr(store, '_db', 1)", [(2, "_db")]),
        ("import noetl_core.x as x\ndef test_x(dying):\n    dying.setattr(x, '_wait', 1)", [(3, "_wait")]),
        ("def test_x(dying):\n    dying.setattr('noetl_core.x._wait', 1)", [(2, "_wait")]),
        ('RUN = """\nfrom noetl_core.dsl import parse\nparse._read = 1\n"""', [(3, "_read")]),
        ("import os\nfrom collections import namedtuple\nos._exit(1)\nnamedtuple('A', 'b')(1)._replace(b=2)", []),
        ("class Own:\n    def _make(self):\n        return self._db", []),
        ("from botocore.client import BaseClient\ndef test_x(patch):\n    patch.setattr(BaseClient, '_make_api_call', 1)", []),
        ("from noetl_core import run as _run\n_run()", []),
        ("from tests import commands\ncommands._db", []),
    ],
)
def test_a_private_name_is_found(text: str, found: list[tuple[int, str]]) -> None:
    assert list(used(text, frozenset({"_db"}))) == found
