"""Jinja2 with two parts replaced: the lexer, and the code generator, whose code calls the `Evaluation` for every operation.

Nothing is computed at compile time, because a constant expression would be evaluated outside the budgets. The generated
module has no builtins except `isinstance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final, cast

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, DependencyFinderVisitor, Frame
from jinja2.exceptions import TemplateRuntimeError
from jinja2.lexer import Lexer, TokenStream
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, missing

from noetl_core.expr.lexer import PositionLexer

_ITERATE: Final = "for"
"""The name of the filter that counts the items of a loop. Authors cannot write this name."""

_JUDGE: Final = "judge"
"""Like `_ITERATE`: the filter for a value whose truth is tested."""


def _judged(node: nodes.Node) -> nodes.Expr:
    return nodes.Filter(cast(nodes.Expr, node), _JUDGE, [], [], None, None, lineno=node.lineno)


class PlaybookCodeGenerator(CodeGenerator):
    """Generates `root(context, environment)`: it returns the value of one whole expression, or generates text."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer = None

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        self.writeline("def root(context, environment):", extra=1)
        self.indent()
        root = Frame(EvalContext(self.environment, self.name))
        root.symbols.analyze_node(node)
        root.toplevel = root.rootlevel = True
        self.writeline("resolve = context.resolve_or_missing")
        self.writeline("undefined = environment.undefined")
        self.writeline("concat = environment.concat")
        expression = whole_expression(node)
        if expression is None:
            self.writeline("if 0: yield None")
        self.enter_frame(root)
        self.pull_dependencies(node.body)
        if expression is None:
            self.blockvisit(node.body, root)
        else:
            self.writeline("return ")
            self.visit(expression, root)
        self.outdent()

    def pull_dependencies(self, nodes: Iterable[nodes.Node]) -> None:
        visitor = DependencyFinderVisitor()
        for node in nodes:
            visitor.visit(node)
        self.filters.update({n: f"filter_{n}" for n in visitor.filters})
        self.tests.update({n: f"test_{n}" for n in visitor.tests})

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if isinstance(node, nodes.TemplateData):
            return node.data
        raise nodes.Impossible

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write("environment.text(")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: Any) -> None:
        self.write(")")

    def _call(self, method: str, *parts: nodes.Node | str, frame: Frame) -> None:
        self.write(f"environment.{method}(")
        for index, part in enumerate(parts):
            if index:
                self.write(", ")
            if isinstance(part, str):
                self.write(part)
            else:
                self.visit(part, frame)
        self.write(")")

    def visit_If(self, node: nodes.If, frame: Frame) -> None:
        node.test = _judged(node.test)
        super().visit_If(node, frame)

    def visit_And(self, node: nodes.BinExpr, frame: Frame) -> None:
        self._either(node, "and", frame)

    def visit_Or(self, node: nodes.BinExpr, frame: Frame) -> None:
        self._either(node, "or", frame)

    def _either(self, node: nodes.BinExpr, word: str, frame: Frame) -> None:
        self.write("(")
        self._call(_JUDGE, node.left, frame=frame)
        self.write(f" {word} ")
        self.visit(node.right, frame)
        self.write(")")

    def visit_Not(self, node: nodes.UnaryExpr, frame: Frame) -> None:
        self.write("(not ")
        self._call(_JUDGE, node.node, frame=frame)
        self.write(")")

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        node.iter = nodes.Filter(node.iter, _ITERATE, [], [], None, None, lineno=node.lineno)
        super().visit_For(node, frame)

    def visit_Filter(self, node: nodes.Filter, frame: Frame) -> None:
        if node.name == _ITERATE and node.node is not None:
            self._call("iterate", node.node, frame=frame)
        elif node.name == _JUDGE and node.node is not None:
            self._call(_JUDGE, node.node, frame=frame)
        else:
            super().visit_Filter(node, frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self._call("make_list", *node.items, frame=frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        if node.ctx == "load":
            self._call("make_tuple", *node.items, frame=frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("environment.make_dict(")
        for item in node.items:
            self.write("(")
            self.visit(item.key, frame)
            self.write(", ")
            self.visit(item.value, frame)
            self.write("), ")
        self.write(")")

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.join((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        """`a < b < c` compares `a` and `b`, and evaluates `c` only if that is true; `b` is evaluated once."""
        left: str | None = None
        self.write("(")
        for index, operand in enumerate(node.ops):
            self.write(f"{' and ' if index else ''}environment.compare({operand.op!r}, ")
            if left is None:
                self.visit(node.expr, frame)
            else:
                self.write(left)
            self.write(", ")
            if index + 1 < len(node.ops):
                left = self.temporary_identifier()
                self.write(f"({left} := ")
                self._operand(operand, frame)
                self.write(")")
            else:
                self._operand(operand, frame)
            self.write(")")
        self.write(")")

    def _operand(self, operand: nodes.Operand, frame: Frame) -> None:
        items = operand.expr.items if isinstance(operand.expr, nodes.List | nodes.Tuple) else []
        if operand.op in ("in", "notin") and items and all(isinstance(i, nodes.Const) for i in items):
            self.write(repr(tuple(i.value for i in items)))  # type: ignore[attr-defined]  # all are `Const`: seen above
        else:
            self.visit(operand.expr, frame)

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        self._call("header" if _is_headers(node.node) else "getattr", node.node, repr(node.attr), frame=frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if isinstance(node.arg, nodes.Slice):
            bounds = [bound if bound is not None else "None" for bound in (node.arg.start, node.arg.stop, node.arg.step)]
            self._call("slice", node.node, *bounds, frame=frame)
        else:
            self._call("header" if _is_headers(node.node) else "getitem", node.node, node.arg, frame=frame)

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        method = node.node
        plain = not node.kwargs and node.dyn_args is None and node.dyn_kwargs is None and 1 <= len(node.args) <= 2
        if isinstance(method, nodes.Getattr) and method.attr == "get" and _is_headers(method.node) and plain:
            self._call("header_get", method.node, *node.args, frame=frame)
        else:
            super().visit_Call(node, frame, forward_caller=forward_caller)

    def visit_CondExpr(self, node: nodes.CondExpr, frame: Frame) -> None:
        self.write("(")
        self.visit(node.expr1, frame)
        self.write(" if ")
        self._call(_JUDGE, node.test, frame=frame)
        self.write(" else ")
        if node.expr2 is None:
            self.write("undefined('the condition is false and there is no else')")
        else:
            self.visit(node.expr2, frame)
        self.write(")")


def _is_headers(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Getattr) and node.attr == "headers"


def whole_expression(template: nodes.Template) -> nodes.Expr | None:
    """Return the expression of a template that is one `{{ expression }}` with at most white space around it."""
    if len(template.body) != 1 or not isinstance(template.body[0], nodes.Output):
        return None
    found = [n for n in template.body[0].nodes if not (isinstance(n, nodes.TemplateData) and not n.data.strip())]
    return found[0] if len(found) == 1 and not isinstance(found[0], nodes.TemplateData) else None


class PlaybookEnvironment(ImmutableSandboxedEnvironment):
    """Compiles templates. Running templates use an `Evaluation` as their environment."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    intercepted_unops = frozenset({"+", "-"})
    code_generator_class = PlaybookCodeGenerator

    def __init__(self, filters: Mapping[str, Callable[..., Any]], tests: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(autoescape=False, optimized=False, keep_trailing_newline=True, cache_size=0)
        self.filters = dict(filters)
        self.tests = dict(tests)
        self.globals = {}

    @cached_property
    def lexer(self) -> Lexer:
        return PositionLexer(self)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Like Jinja2's, but does not set the environment on every node, which only the optimizer needs."""
        return nodes.Template(Parser(self, source, name, filename).subparse(), lineno=1)

    def _tokenize(self, source: str, name: str | None, filename: str | None = None, state: str | None = None) -> TokenStream:
        """Like Jinja2's, without extensions."""
        return self.lexer.tokenize(source, name, filename, state)

    def root(self, template: nodes.Template) -> Callable[[Any, Any], Any]:
        """Return the compiled function of a parsed and checked template. Raises `SyntaxError` if Python refuses code that Jinja2
        generated."""
        code = compile(self._generate(template, None, None), "<template>", "exec")
        module = dict(self._module)
        exec(code, module)
        root: Callable[[Any, Any], Any] = module["root"]
        return root

    @cached_property
    def _module(self) -> dict[str, Any]:
        """Return all names that generated code can use."""
        return {
            "__builtins__": {"isinstance": isinstance},
            "LoopContext": LoopContext, "Macro": Macro, "Namespace": Namespace, "TemplateRuntimeError": TemplateRuntimeError,
            "Undefined": Undefined, "identity": lambda value: value, "missing": missing,
            **{f"filter_{name}": run for name, run in self.filters.items()},
            **{f"test_{name}": run for name, run in self.tests.items()},
        }  # fmt: skip
