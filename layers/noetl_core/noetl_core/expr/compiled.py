"""Parses, checks and compiles template texts, each once."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError as JinjaSyntaxError

from noetl_core.expr.environment import PlaybookEnvironment, whole_expression
from noetl_core.expr.errors import LimitExceeded, TemplateSyntaxError
from noetl_core.expr.evaluation_limits import SOURCE_CHARS, SOURCE_DEPTH, SOURCE_NODES
from noetl_core.expr.filters import FILTERS, TESTS
from noetl_core.expr.functions import FUNCTIONS
from noetl_core.expr.lexer import Line
from noetl_core.expr.patterns import BadPattern, check_literals
from noetl_core.values.frozen import frozen

ENVIRONMENT: Final = PlaybookEnvironment(FILTERS, TESTS)

_LARGE: Final = 16_384
"""Longer texts have a small cache of their own, so that the cache is limited in bytes."""

_REFUSED: Final[dict[type[nodes.Node], str]] = {
    nodes.Extends: "extends", nodes.Block: "block", nodes.Include: "include", nodes.Import: "import", nodes.FromImport: "import",
    nodes.EvalContextModifier: "autoescape", nodes.ScopedEvalContextModifier: "autoescape",
}  # fmt: skip


_NOTHING: Final = frozenset[str]()
_PATH: Final = re.compile(r" *\{\{ *([A-Za-z_][A-Za-z0-9_]*)((?:\.[A-Za-z_][A-Za-z0-9_]*){0,20}) *\}\} *")
"""The most frequent template: one name with attributes, which needs no parser."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORDS: Final = frozenset(("not", "and", "or", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"))


@frozen
class Read:
    """A read of a name in a template: the literal part of its path, and the position in the text (from 1)."""

    path: tuple[str, ...]
    line: int
    column: int


Root = Callable[[Any, Any], Any]


@dataclass(slots=True, eq=False)
class Compiled:
    """A checked template. `names` are the root names that it reads from its scope, without the functions that it calls."""

    source: str
    is_expression: bool
    names: frozenset[str]
    reads: tuple[Read, ...]
    builds_value: bool
    """If true, the expression may build its value rather than find it in the scope."""
    _template: nodes.Template | None = field(default=None, repr=False)
    _root: Root | None = field(default=None, repr=False)

    @property
    def template(self) -> nodes.Template:
        """The parsed text."""
        if self._template is None:
            self._template = ENVIRONMENT.parse(self.source)
        return self._template

    @property
    def expression(self) -> nodes.Expr | None:
        """The parsed expression, if the text is one."""
        return whole_expression(self.template) if self.is_expression else None

    def check_patterns(self) -> None:
        """Raise `TemplateSyntaxError` for a regular expression that stands in the text and is refused."""
        if "regex_" in self.source:
            try:
                check_literals(self.template)
            except BadPattern as error:
                raise _syntax_error(str(error), error.line, error.hint) from None

    @property
    def root(self) -> Root:
        """The generated function. It is generated at the first use, because validation compiles many templates without running
        them."""
        if self._root is None:
            try:
                self._root = ENVIRONMENT.root(self.template)
            except SyntaxError as error:  # e.g. more nested loops than Python takes
                raise TemplateSyntaxError(f"the template cannot be compiled: {error.msg}") from None
        return self._root


PATTERN: Final = r"\{[{%]"
"""`is_template` as a regular expression, for JSON Schema."""


def is_template(value: Any) -> bool:
    """Return whether `value` is text with template syntax."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def compile_text(source: str) -> Compiled:
    """Return the compiled form of `source`. Raises `TemplateSyntaxError` with the position, `LimitExceeded` if it is too
    large."""
    return _compile_large(source) if len(source) > _LARGE else _compile_small(source)


def _compile(source: str) -> Compiled:
    if len(source) > SOURCE_CHARS:
        raise LimitExceeded(f"a template longer than {SOURCE_CHARS} characters")
    path = _PATH.fullmatch(source)
    if path is not None and path[1] not in _WORDS:
        read = Read((path[1], *path[2].split(".")[1:]), 1, path.start(1) + 1)
        return Compiled(source, True, frozenset((path[1],)), (read,), path[1] in FUNCTIONS)
    try:
        template = ENVIRONMENT.parse(source)
        reads = tuple(sorted(_check(template), key=lambda r: (r.line, r.column, r.path)))
        names = frozenset(read.path[0] for read in reads)
        expression = whole_expression(template)
        builds_value = expression is not None and not _only_finds(expression)
        compiled = Compiled(source, expression is not None, names, reads, builds_value, template)
        if "{%" in source:
            _ = compiled.root  # code generation may still refuse statements, which must be reported here
    except JinjaSyntaxError as error:
        message = error.message or "not a template"
        hint = next((hint for sign, hint in _OPERATORS.items() if sign in message), None)
        raise _syntax_error(message + (f" ({hint})" if hint else ""), error.lineno, hint) from None
    except (RecursionError, MemoryError):
        raise LimitExceeded("the template nests too deeply") from None
    return compiled


_OPERATORS: Final = {
    "unexpected char '&'": "write and",
    "unexpected char '!'": "write not",
    "unexpected char '?'": "write a if condition else b",
}
"""Signs of other languages in messages of Jinja2, with what to write here."""
_compile_small = lru_cache(maxsize=8192)(_compile)
_compile_large = lru_cache(maxsize=64)(_compile)


def _syntax_error(message: str, line: int, hint: str | None = None) -> TemplateSyntaxError:
    return TemplateSyntaxError(message, int(line), line.column if isinstance(line, Line) else 1, hint)


def _check(template: nodes.Template) -> Iterator[Read]:
    """Refuse syntax that playbooks may not use; yield the reads."""
    count = 0
    stack: list[tuple[nodes.Node, int, frozenset[str]]] = [(template, 1, _NOTHING)]
    while stack:
        node, depth, bound = stack.pop()
        count += 1
        if count > SOURCE_NODES:
            raise LimitExceeded(f"a template of more than {SOURCE_NODES} parts")
        if depth > SOURCE_DEPTH:
            raise LimitExceeded(f"a template nested deeper than {SOURCE_DEPTH}")
        if isinstance(node, nodes.Const):
            if type(node.value) is float and not math.isfinite(node.value):
                raise _syntax_error("this number is beyond the range of floating point", node.lineno)
            if type(node.value) is str and _SURROGATE.search(node.value):
                raise _syntax_error("half of a surrogate pair is not a character: write the character itself", node.lineno)
            continue
        if isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem):
            read = _read(node)
            if read is not None:
                path, name = read
                if path[0] not in bound:
                    yield Read(path, int(name.lineno), name.lineno.column if isinstance(name.lineno, Line) else 1)
                stack.extend((child, depth + 1, bound) for child in _beside_path(node))
                continue
        elif isinstance(node, nodes.Call | nodes.Filter | nodes.Test):
            _check_call(node)
        elif isinstance(node, nodes.Stmt | nodes.Template):
            if type(node) in _REFUSED:
                raise _syntax_error(f"{{% {_REFUSED[type(node)]} %}} is not available in playbooks", node.lineno)
            stack.extend((child, depth + 1, inner) for child, inner in _children(node, bound))
            continue
        inner = bound
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS:
            inner = bound | {node.node.name}
        below = (node.left, node.right) if isinstance(node, nodes.BinExpr) else node.iter_child_nodes()
        stack.extend((child, depth + 1, inner) for child in below)


def _check_call(node: nodes.Call | nodes.Filter | nodes.Test) -> None:
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise _unknown("filter", node.name, FILTERS, node)
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        raise _unknown("test", node.name, TESTS, node)
    names = [k.key for k in node.kwargs]
    if len(set(names)) < len(names):
        raise _syntax_error(f"the argument {max(names, key=names.count)!r} is given twice", node.lineno)


def _children(node: nodes.Node, bound: frozenset[str]) -> Iterator[tuple[nodes.Node, frozenset[str]]]:
    """Return the children of a statement, each with the names that the template binds there."""
    outside: list[nodes.Node] = []
    inner = bound | _assigned(node)
    if isinstance(node, nodes.For):
        inner |= _stored([node.target]) | {"loop"}
        outside = [node.iter]
    elif isinstance(node, nodes.Macro | nodes.CallBlock):
        inner |= {a.name for a in node.args} | {"caller", "varargs", "kwargs"}
        outside = [*node.defaults, *([node.call] if isinstance(node, nodes.CallBlock) else [])]
    elif isinstance(node, nodes.With):
        inner |= _stored(node.targets)
        outside = list(node.values)
    for child in node.iter_child_nodes():
        yield child, bound if any(child is o for o in outside) else inner


def _assigned(node: nodes.Node) -> frozenset[str]:
    """Return the names that `set` and `macro` in `node` bind. They count as bound in the whole node; branches of an `if` bind
    outside of it too."""
    names: set[str] = set()
    for child in node.iter_child_nodes():
        if isinstance(child, nodes.Assign | nodes.AssignBlock):
            names |= _stored([child.target])
        elif isinstance(child, nodes.Macro):
            names.add(child.name)
        elif isinstance(child, nodes.If):
            names |= _assigned(child)
    return frozenset(names)


def _stored(targets: list[Any]) -> frozenset[str]:
    names = (name for target in targets for name in (target, *target.find_all(nodes.Name)))
    return frozenset(n.name for n in names if isinstance(n, nodes.Name))


def _read(node: nodes.Node) -> tuple[tuple[str, ...], nodes.Name] | None:
    """Return the path that `node` reads, if it is a name followed by attributes and literal keys."""
    parts: list[str] = []
    while True:
        if isinstance(node, nodes.Getattr):
            parts.append(node.attr)
            node = node.node
        elif isinstance(node, nodes.Getitem):
            if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
                parts.append(node.arg.value)
            else:
                parts.clear()
            node = node.node
        elif isinstance(node, nodes.Name):
            return ((node.name, *reversed(parts)), node) if node.ctx == "load" else None
        else:
            return None


def _beside_path(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield the subscripts along a path that are expressions."""
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        if isinstance(node, nodes.Getitem):
            yield node.arg
        node = node.node


def _only_finds(node: nodes.Expr | None) -> bool:
    """Return whether the value of an expression can only be data from its scope, or a scalar. Such a value need not be
    checked."""
    match node:
        case nodes.Getattr():
            return _only_finds(node.node)
        case nodes.Getitem():
            return not isinstance(node.arg, nodes.Slice) and _only_finds(node.node)
        case nodes.Filter(name="default" | "d"):
            return _only_finds(node.node) and all(_only_finds(a) for a in node.args)
        case nodes.CondExpr():
            return _only_finds(node.expr1) and _only_finds(node.expr2)
        case nodes.And() | nodes.Or():
            return _only_finds(node.left) and _only_finds(node.right)
        case nodes.Name():
            return node.name not in FUNCTIONS
        case nodes.List() | nodes.Dict():
            return not node.items
    return node is None or isinstance(node, nodes.Const | nodes.Compare | nodes.Not | nodes.Test | nodes.Concat)


def _unknown(what: str, name: str, known: Any, node: nodes.Node) -> TemplateSyntaxError:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else None
    return _syntax_error(f"there is no {what} {name!r}" + (f" ({hint})" if hint else ""), node.lineno, hint)


def referenced(value: Any) -> frozenset[tuple[str, ...]]:
    """Return the dotted paths that the templates in `value` read, e.g. `("steps", "fetch", "result")`. Raises as
    `compile_text`."""
    found: set[tuple[str, ...]] = set()
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            if is_template(part):
                found.update(read.path for read in compile_text(part).reads)
        elif isinstance(part, dict):
            stack.extend(part.values())
        elif isinstance(part, list | tuple):
            stack.extend(part)
    return frozenset(found)
