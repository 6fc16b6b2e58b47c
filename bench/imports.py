"""Measures the savings of imports inside functions: `python -m bench.imports [TEXT]` prints them, for files with TEXT in their
names.

Each is measured in processes of its own, after the import of its file: milliseconds of processor time, and
modules, that a start saves which never gets there.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator

from tests.import_graph import PACKAGES, ROOT, Import, imports_of, modules_of

TIMES = 5
_CHILD = """
import json, sys, time
sys.path[:0] = {paths}
import {importer}
before, began = len(sys.modules), time.process_time()
{statement}
print(json.dumps([(time.process_time() - began) * 1e3, len(sys.modules) - before]))
"""
PATHS = [str((ROOT / package).parent) for package in PACKAGES]


def deferred() -> Iterator[Import]:
    """Every import inside a function once, whatever the number of modules it names."""
    known: set[tuple[object, int]] = set()
    for one in imports_of(modules_of(ROOT)):
        if one.kind == "call" and (one.file, one.line) not in known:
            known.add((one.file, one.line))
            yield one


def cost(one: Import, times: int = TIMES) -> tuple[float, int]:
    """Milliseconds (the least of some) and modules that the import loads."""
    statement = next(
        ast.unparse(node)
        for node in ast.walk(ast.parse(one.file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno == one.line
    )
    child = _CHILD.format(paths=PATHS, importer=one.importer, statement=statement)
    took = [
        json.loads(subprocess.run([sys.executable, "-c", child], check=True, capture_output=True).stdout) for _ in range(times)
    ]
    return min(ms for ms, _ in took), took[0][1]


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for one in deferred():
        place = f"{one.file.relative_to(ROOT)}:{one.line}"
        if wanted in place:
            ms, modules = cost(one)
            print(f"{ms:8.1f} ms {modules:5} modules  {place}  {one.text}", flush=True)
