"""`python_code` compiles the text of `kind: python`, for validation and for the process of the task (docs/tools/python.md).

The text is a module. If it has a `return` outside functions, it becomes the body of a function that writes the module's names,
with otherwise unchanged meaning and line numbers. Standard library only, and `ast` only where needed, because the process of a
task loads this module.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import ast  # 2 ms: needed only to analyse code
    from collections.abc import Iterator, Mapping, Sequence

FILENAME: Final = "<code>"
BODY: Final = "<module>"
"""The name of the function that a text with a `return` becomes; tracebacks show it, as they show a module's."""
END: Final = "<end>"
"""The name whose value that function returns where no `return` was reached."""
LONGEST_CHECKED: Final = 262_144
"""The most characters that validation compiles of all texts of a playbook together. Further texts are compiled when they run."""


def compiled(source: str) -> types.CodeType:
    """Return the code of a text. Raises `SyntaxError`, `ValueError`, `RecursionError`, `MemoryError`."""
    try:
        return compile(source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        if error.msg != "'return' outside function":
            raise
    return compile(_as_function(source), FILENAME, "exec", dont_inherit=True)


def run(code: types.CodeType, names: dict[str, Any]) -> Any:
    """Carry the code out with `names` as its globals. Return the value of its `return`, or `END`."""
    names[END] = END
    exec(code, names)
    body = names.pop(BODY, None)
    try:
        return END if body is None else body()
    finally:
        names.pop(END, None)


class Names(NamedTuple):
    """The names of a text."""

    defined: frozenset[str] | None
    """The names that it binds outside functions; None if uncertain."""
    read: Mapping[str, tuple[int, int]]
    """The names that it reads and binds nowhere, each with line and column of its first place. Empty if uncertain."""


def names_of(source: str) -> Names:
    """Return the names of a text. Raises `SyntaxError`."""
    import ast  # 2 ms: needed only to analyse code

    tree = ast.parse(source, FILENAME)
    defined = {name for node in _outside_functions(tree.body) for name in _bound_by(node)}
    bound: set[str] = set()
    read: dict[str, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return Names(None, {})
        if isinstance(node, ast.Name) and node.id in ("globals", "exec", "vars", "locals"):
            return Names(None, {})
        bound.update([node.arg] if isinstance(node, ast.arg) else _bound_by(node))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            place = (node.lineno, node.col_offset)
            read[node.id] = min(read.get(node.id, place), place)
    lines = source.encode("utf-8", "surrogatepass").split(b"\n")
    places = {name: (line, _characters(lines, line, column)) for name, (line, column) in read.items() if name not in bound}
    return Names(frozenset(defined), places)


def result_fields(source: str, entry: str = "main") -> frozenset[str] | None:
    """Return the keys of the mappings that a text may give as its result; None where these are not certain."""
    import ast  # 2 ms: needed only to analyse code

    tree = ast.parse(source, FILENAME)
    nodes = list(ast.walk(tree))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    if any(node.id in ("globals", "exec", "vars", "locals", "eval") for node in names):
        return None
    returned = [node.value for node in _outside_functions(tree.body) if isinstance(node, ast.Return)]
    results = [node for node in names if node.id == "result"]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry]
    if returned:
        return None if results or functions else _keys_of_all(returned)
    if results:
        assigned = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets == results]
        return _keys_of_all(assigned) if assigned else None
    if len(functions) != 1 or functions[0] not in tree.body or functions[0].decorator_list:
        return None
    inside = list(_outside_functions(functions[0].body))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inside):
        return None
    return _keys_of_all([node.value for node in inside if isinstance(node, ast.Return)])


def uncalled(source: str) -> tuple[str, int, int] | None:
    """Return a function, with the line and column of its name, of a text that only defines and imports, has no `main`, and never
    calls it."""
    import ast  # 2 ms, as above

    body = ast.parse(source, FILENAME).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    if len(functions) != 1 or not all(isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom) for node in body):
        return None
    only = functions[0]
    return None if only.name == "main" or only.decorator_list else (only.name, only.lineno, only.col_offset + len("def ") + 1)


def arguments_of(source: str, entry: str = "main") -> Mapping[str, tuple[int, int]]:
    """Return the parameters without a default of the function that is called for the result, with line and column; empty where
    that is not certain. Raises `SyntaxError`."""
    import ast  # 2 ms: needed only to analyse code

    tree = ast.parse(source, FILENAME)
    functions = [node for node in ast.walk(tree) if getattr(node, "name", None) == entry]
    function = functions[0] if len(functions) == 1 else None
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function not in tree.body or function.decorator_list:
        return {}
    outside = list(_outside_functions(tree.body))
    if any(isinstance(node, ast.Return) or (isinstance(node, ast.Name) and node.id in ("result", entry)) for node in outside):
        return {}
    plain, named = function.args, function.args.kwonlyargs
    positional = [*plain.posonlyargs, *plain.args]
    needed = positional[: len(positional) - len(plain.defaults)]
    needed += [arg for arg, default in zip(named, plain.kw_defaults, strict=True) if default is None]
    return {arg.arg: (arg.lineno, arg.col_offset + 1) for arg in needed}


def _keys_of_all(values: Sequence[ast.expr | None]) -> frozenset[str] | None:
    """Return the keys of literal mappings; None if one of the values is anything else, or there is none."""
    import ast  # 2 ms: needed only to analyse code

    found: set[str] = set()
    for value in values:
        if not isinstance(value, ast.Dict) or not value.keys:
            return None
        for key in value.keys:
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            found.add(key.value)
    return frozenset(found) or None


def imports_of(source: str) -> Mapping[str, tuple[int, int]]:
    """Return the modules that a text imports outside of `try` and conditions, with line and column of their first places. Raises
    `SyntaxError`."""
    import ast  # 2 ms: needed only to analyse code

    found: dict[str, tuple[int, int]] = {}
    stack: list[ast.AST] = [ast.parse(source, FILENAME)]
    while stack:
        node = stack.pop()
        if not isinstance(node, ast.Import | ast.ImportFrom):
            if not isinstance(node, ast.Try | ast.TryStar | ast.If | ast.With):
                stack.extend(ast.iter_child_nodes(node))
            continue
        place = (node.lineno, node.col_offset + 1)
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            modules = [node.module] if node.module and not node.level else []
        for name in (module.partition(".")[0] for module in modules):
            found[name] = min(found.get(name, place), place)
    return found


def _characters(lines: list[bytes], line: int, column: int) -> int:
    """Return the column, from 1, of the character after `column` bytes of a line."""
    return len(lines[line - 1][:column].decode("utf-8", "replace")) + 1 if line <= len(lines) else 1


# --- a text with a return ------------------------------------------------------------------------------------------------


def _as_function(source: str) -> ast.Module:
    """Return the text as a module that defines a function of its statements. Raises `SyntaxError` for statements that no module
    may have."""
    import ast  # 2 ms: needed only to analyse code

    tree = ast.parse(source, FILENAME)
    names: set[str] = set()
    for node in _outside_functions(tree.body):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            word = "await" if isinstance(node, ast.Await) else "yield"
            raise SyntaxError(f"'{word}' outside function", _place(source, node))
        names.update(_bound_by(node))
    head, body = _head_and_body(tree.body)
    first, last = body[0], body[-1]
    end = ast.Return(ast.copy_location(ast.Name(END, ast.Load()), last))
    statements = [*([ast.Global(sorted(names))] if names else []), *map(_module_statements().visit, body), end]
    (function,) = ast.parse("def body(): pass").body
    assert isinstance(function, ast.FunctionDef)
    function.name, function.body = BODY, statements
    for made, place in ((statements[0], first), (end, last), (function, first)):
        ast.copy_location(made, place)
    return ast.fix_missing_locations(ast.Module([*head, function], []))


def _place(source: str, node: ast.expr) -> tuple[str, int, int, str]:
    return FILENAME, node.lineno, node.col_offset + 1, source.splitlines()[node.lineno - 1]


def _head_and_body(statements: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the statements that must stay at the beginning of a module (its docstring, imports from `__future__`), and the
    others."""
    import ast  # 2 ms: needed only to analyse code

    n = 0
    for statement in statements:
        about = n == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not about and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        n += 1
    return statements[:n], statements[n:]


def _module_statements() -> ast.NodeTransformer:
    """Return a transformer of statements whose meaning differs in a function with global names: annotations of names, and
    `global` itself."""
    import ast  # 2 ms: needed only to analyse code

    class Statements(ast.NodeTransformer):
        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
            if not isinstance(node.target, ast.Name):
                return node
            return ast.copy_location(ast.Pass() if node.value is None else ast.Assign([node.target], node.value), node)

        def visit_Global(self, node: ast.Global) -> ast.stmt:
            return ast.copy_location(ast.Pass(), node)

        def _as_it_is(self, node: ast.AST) -> ast.AST:
            return node

        visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _as_it_is

    return Statements()


def _outside_functions(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes that are carried out as part of the module itself."""
    import ast  # 2 ms: needed only to analyse code

    stack: list[ast.AST] = list(statements)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        stack.extend(ast.iter_child_nodes(node))


def _bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that one node binds."""
    import ast  # 2 ms: needed only to analyse code

    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names if alias.name != "*")
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        if node.name is not None:
            yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest
