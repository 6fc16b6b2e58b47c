"""The import graph of the project's files, and its cycles: `python -m tests.import_graph` prints the figures.

An import is of one of three kinds, by when it is carried out: `start` with the file that has it, `call` with the function that it
stands in, `typing` never (under `TYPE_CHECKING`). A cycle is a set of files of which each leads to each other one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "layers/noetl_core/noetl_core",
    "cli/noetl_cli",
    "cli/noetl_lsp",
    "cli/noetl_migrate",
    "cli/noetl_import",
    "console/noetl_console",
    "infra/noetl_infra",
    "plugins/noetl_quantum/src/noetl_quantum",
    "plugins/noetl_snowflake/src/noetl_snowflake",
)
FUNCTIONS = "functions"

Kind = Literal["start", "call", "typing"]
Edges = Mapping[str, set[str]]


@dataclass(frozen=True, slots=True)
class Import:
    """One name that the module `importer` imports; `target` is a module: of the project, or the outermost one of a library."""

    importer: str
    target: str
    kind: Kind
    file: Path
    line: int
    text: str
    """The source line, with its comment."""


def modules_of(root: Path) -> dict[str, Path]:
    """The files of the packages by module name; the functions' shells are called `functions.<name>`."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        folder = root / package
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    for file in sorted((root / FUNCTIONS).glob("*/app.py")):
        found[f"functions.{file.parent.name}"] = file
    return found


def imports_of(modules: Mapping[str, Path]) -> list[Import]:
    """Every import of `modules`, in the order of the files."""
    return [found for name, file in modules.items() for found in _imports_in(name, file, modules)]


def _imports_in(module: str, file: Path, modules: Mapping[str, Path]) -> Iterator[Import]:
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node, kind in import_statements(ast.parse(source), "start"):
        for target in dict.fromkeys(_targets(node, modules)):
            yield Import(module, target, kind, file, node.lineno, lines[node.lineno - 1].strip())


def import_statements(node: ast.AST, kind: Kind = "start") -> Iterator[tuple[ast.Import | ast.ImportFrom, Kind]]:
    """Yield the imports below a node. Expressions have none and are not looked into, which takes a tenth of the time of `ast.walk`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, kind
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and kind == "start":
            yield from import_statements(child, "call")
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from import_statements(child, "typing")
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from import_statements(child, kind)


def _targets(node: ast.Import | ast.ImportFrom, modules: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        if node.level:
            raise ValueError(f"line {node.lineno}: relative imports are not used here")
        inside = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [name if name in modules else str(node.module) for name in inside]
    for name in names:
        yield name if name in modules else name.split(".")[0]


def edges_of(imports: Iterable[Import], modules: Mapping[str, Path], kinds: Sequence[Kind]) -> dict[str, set[str]]:
    """Return the imported modules of each module, over imports of these kinds."""
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for one in imports:
        if one.kind in kinds and one.target in modules and one.target != one.importer:
            edges[one.importer].add(one.target)
    return edges


def cycles(edges: Edges) -> list[list[str]]:
    """The strongly connected components of more than one module, largest first (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(edges[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda c: (-len(c), c))


def between_packages(edges: Edges, depth: int = 2) -> dict[str, set[str]]:
    """The same edges between the packages, by the first `depth` parts of the names."""
    folded: dict[str, set[str]] = {}
    for importer, targets in edges.items():
        package = _package(importer, depth)
        folded.setdefault(package, set()).update(_package(t, depth) for t in targets)
    return {package: targets - {package} for package, targets in folded.items()}


def _package(module: str, depth: int) -> str:
    return ".".join(module.split(".")[:depth])


def figures(root: Path) -> Iterator[str]:
    """The figures and what they are made of, line by line."""
    modules = modules_of(root)
    imports = imports_of(modules)
    kinds: dict[str, tuple[Kind, ...]] = {
        "as the files start": ("start",),
        "with imports inside functions": ("start", "call"),
        "with those for type checking too": ("start", "call", "typing"),
    }
    yield f"{len(modules)} files"
    for kind in ("start", "call", "typing"):
        statements = {(i.file, i.line) for i in imports if i.kind == kind}
        inside = {(i.file, i.line) for i in imports if i.kind == kind and i.target in modules}
        yield f"{len(statements)} import statements of kind {kind}, {len(inside)} of them of files of the project"
    for title, chosen in kinds.items():
        edges = edges_of(imports, modules, chosen)
        found = cycles(edges)
        yield f"{title}: {sum(map(len, edges.values()))} edges, {len(found)} cycles of {sum(map(len, found))} files"
        yield from (f"  {' '.join(c)}" for c in found)
        packages = cycles(between_packages(edges))
        yield f"  between packages: {len(packages)} cycles" + "".join(f"\n  {' '.join(c)}" for c in packages)


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in figures(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
