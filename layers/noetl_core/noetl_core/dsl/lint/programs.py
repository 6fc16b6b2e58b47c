"""Program text of `python` tasks: template expressions in it, namespaces of templates that it reads as variables, names that it
does not have, and modules that it cannot import (W523, W524, W526, W527; docs/tools/python.md)."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from noetl_core import python_code
from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.lint.context import Lint, task_nodes
from noetl_core.dsl.model import Step
from noetl_core.dsl.reading.diagnostics import close, suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.positions import place_in_code
from noetl_core.expr import is_template

NAMESPACES: Final = words("workload ctx iter steps keychain job execution_id")
IN_CONTEXT: Final = words("workload ctx execution_id")
"""The parts of `NAMESPACES` that `context` has."""
SEEN: Final = words("args input_data context _run")
"""Variables that every program has."""
OF_ENGINE: Final = words(
    "aiohappyeyeballs aiohttp aiosignal annotated_types anyio attr attrs aws_lambda_powertools aws_xray_sdk botocore"
    " cachetools certifi cffi cronsim cryptography dateutil duckdb frozenlist h11 httpcore httpx idna jinja2 jmespath markupsafe"
    " multidict packaging propcache psycopg psycopg_binary pycparser pydantic pydantic_core re2 regex s3transfer six"
    " typing_extensions typing_inspection tzdata urllib3 wrapt yaml yarl"
)
"""Modules of the engine's libraries, which programs may import (`tools.sandbox.libraries`)."""
_BUILT_IN: Final = frozenset(dir(builtins))
_EXPRESSION: Final = re.compile(r"\{\{-?\s*((?:workload|ctx|iter|args|steps|keychain|job|_prev|_task)\b[^{}\n]{0,80}?)\s*-?\}\}")
_KEY: Final = re.compile(r"""\s*(?:\[\s*|\.\s*get\s*\(\s*)(['"])(\w+)\1\s*[\]),]""")
_MEANT: Final = re.compile(r"""\bworkload(?:\.(\w+)|\[['"](\w+)['"]\])""")
PARTS: Final = words("execution_id step task task_run_id attempt workload ctx")
"""The parts of `context`."""
_TAKES_CONTEXT: Final = re.compile(r"\bdef\s+\w+\s*\([^()]*\bcontext\b")
_CONTEXT: Final = re.compile(r"\bcontext\b")
_FORMATTED: Final = re.compile(r"""\br?fr?['"]""", re.IGNORECASE)
_PARAMETER: Final = re.compile(r"\bdef\s+\w+\s*\([^()]*\Z")


def programs(lint: Lint) -> None:
    """W523 for expressions of templates in the text of programs, W524 for namespaces of templates that these read."""
    arcs: dict[str, set[str]] = {}
    for step in lint.playbook.steps:
        for arc in step.router.arcs if step.router is not None else ():
            arcs.setdefault(arc.step, set()).update(arc.args)
    every: set[str] = set()
    for step, node in zip(lint.playbook.steps, lint.step_nodes(), strict=True):
        args = arcs.get(step.name, set()) | set(step.args) | set(step.each_args)
        every |= args
        for tool in _tools(step, node):
            _check_all(lint, tool, args, own=True)
    if (workbook := lint.root.get("workbook")) is not None:
        _check_all(lint, workbook, every, own=False)


def keys_read(code: str) -> frozenset[str] | None:
    """Return the keys of `workload` that a program reads, or is meant to read, from its context; None if it may read any."""
    found = {place[1] or place[2] for place in _MEANT.finditer(code)}
    for place in _CONTEXT.finditer(code):
        if _PARAMETER.search(code, max(0, place.start() - 500), place.start()):
            continue
        part = _KEY.match(code, place.end())
        if part is None:
            return None
        if part[2] == "workload":
            key = _KEY.match(code, part.end())
            if key is None:
                return None
            found.add(key[2])
    return frozenset(found)


def _tools(step: Step, node: Node) -> Iterator[Node]:
    spec = node.get("spec")
    policy = spec.get("policy") if spec is not None else None
    undo = node.get("compensate") or (policy.get("compensation") if policy is not None else None)
    for tool in (node.get("tool"), undo):
        if tool is not None:
            yield tool


def _check_all(lint: Lint, tool: Node, args: set[str], *, own: bool) -> None:
    """Check the programs below `tool`. Tasks of the workbook are not `own`: their callers may pass further arguments."""
    for task in task_nodes(tool):
        code = task.get("code") if isinstance(task.value, dict) else None
        kind = task.get("kind") if code is not None else None
        if code is not None and kind is not None and kind.value == "python" and isinstance(code.value, str):
            _check(lint, task, code, args, own=own)
            _imports(lint, task, code)


def _check(lint: Lint, task: Node, code: Node, args: set[str], *, own: bool) -> None:
    expressions = [found for found in _EXPRESSION.finditer(code.value) if _is_meant(code.value, found.start())]
    for found in expressions:
        line = code.value.count("\n", 0, found.start()) + 1
        column = found.start() - code.value.rfind("\n", 0, found.start())
        message = f"code is not a template: {found[0]} stays in it as it is"
        hint = f'give it as an argument: args: {{ value: "{found[0]}" }}, and write value in the code'
        lint.r.report_at("W523", place_in_code(lint.r.loaded, code, line, column), code.path, message, hint)
    if expressions:
        return
    known = set(args)
    for key in ("args", "input", "libs"):
        part = task.get(key)
        if part is not None:
            if not isinstance(part.value, dict):  # a template, or a list of libraries: its names are not known here
                return
            known |= part.value.keys()
    read = lint.r.program_reads.get(code.value)
    if read is None:  # it was not compiled
        return
    if own:
        _arguments(lint, task, code, known)
        if "context" in read or _TAKES_CONTEXT.search(code.value):
            _context(lint, task, code)
    for name, (line, column) in sorted(read.items(), key=lambda place: place[1]):
        if name in known:
            continue
        if name in NAMESPACES:
            hint = (
                f'context["{name}"]' if name in IN_CONTEXT else f'give it as an argument: args: {{ {name}: "{{{{ {name} }}}}" }}'
            )
            message = f"code reads {name}, which is not a variable there"
            lint.r.report_at("W524", place_in_code(lint.r.loaded, code, line, column), code.path, message, hint)
        elif own and not _may_have(name, read):
            near = f"import {name}" if name in sys.stdlib_module_names else suggest(name, known | SEEN | _BUILT_IN)
            message = f"code reads {name}, which it neither has as an argument nor defines"
            hint = near or f"give it as an argument: args: {{ {name}: ... }}"
            lint.r.report_at("W526", place_in_code(lint.r.loaded, code, line, column), code.path, message, hint)


def _context(lint: Lint, task: Node, code: Node) -> None:
    """W526: a part of `context` that it does not have."""
    args = task.get("args") or task.get("input")
    own = args.get("context") if args is not None else None
    if own is not None and not (own.rewritten and isinstance(own.value, dict)):
        return  # an argument of the author's
    has = PARTS if own is None else PARTS | own.value.keys()
    for place in _CONTEXT.finditer(code.value):
        part = _KEY.match(code.value, place.end())
        if part is None or part[2] in has:
            continue
        line = code.value.count("\n", 0, place.start()) + 1
        column = place.start() - code.value.rfind("\n", 0, place.start())
        names = {step.name for step in lint.playbook.steps} | lint.playbook.workload.keys()
        hint = suggest(part[2], has | names) or "context has workload and ctx, and the playbook's steps and workload keys by name"
        message = f"code reads {part[2]} of context, which nothing gives it"
        lint.r.report_at("W526", place_in_code(lint.r.loaded, code, line, column), code.path, message, hint)


def _arguments(lint: Lint, task: Node, code: Node, known: set[str]) -> None:
    """W526: a parameter of the called function without an argument."""
    entry = task.get("entry")
    name = "main" if entry is None else entry.value
    if "def " not in code.value or not isinstance(name, str):
        return
    uncalled = python_code.uncalled(code.value) if entry is None else None
    if uncalled is not None:
        defined, line, column = uncalled
        message = f"code only defines {defined}, which nothing calls"
        hint = "rename it to main, or return its result"
        lint.r.report_at("W526", place_in_code(lint.r.loaded, code, line, column), code.path, message, hint)
    for parameter, (line, column) in python_code.arguments_of(code.value, name).items():
        if parameter not in known | SEEN:
            hint = suggest(parameter, known) or f"give it: args: {{ {parameter}: ... }}, or a default"
            message = f"{name} takes {parameter}, which is not an argument of the task"
            lint.r.report_at("W526", place_in_code(lint.r.loaded, code, line, column), code.path, message, hint)


def _may_have(name: str, read: Mapping[str, object]) -> bool:
    """Return whether a program has a name that it does not bind, or expects not to have it."""
    return name in _BUILT_IN or name in SEEN or name.startswith("__") or "NameError" in read or "Exception" in read


def _imports(lint: Lint, task: Node, code: Node) -> None:
    """W527: a module that neither Python nor the engine has, in a playbook that requires no packages."""
    if lint.playbook.executor.requirements or code.value not in lint.r.program_reads:
        return
    libs = task.get("libs")
    if libs is not None and isinstance(libs.value, dict):
        for name, target in libs.value.items():
            source = target.get("from") or target
            if isinstance(source.value, str) and not is_template(source.value) and not _importable(source.value):
                lint.report("W527", (libs, name), *_no_module(source.value.partition(".")[0]))
    if "import" not in code.value:
        return
    for name, (line, column) in sorted(python_code.imports_of(code.value).items(), key=lambda place: place[1]):
        if not _importable(name):
            lint.r.report_at("W527", place_in_code(lint.r.loaded, code, line, column), code.path, *_no_module(name))


def _importable(module: str) -> bool:
    name = module.partition(".")[0]
    return name in sys.stdlib_module_names or name in OF_ENGINE or name.startswith("_")


def _no_module(name: str) -> tuple[str, str]:
    """Return message and hint."""
    near = close(name, sys.stdlib_module_names)
    hint = f'did you mean "{near}"?' if near else f'executor.spec.python: {{ requirements: ["{name}"] }}'
    return f"code imports {name}, which the playbook does not require", hint


def _is_meant(code: str, at: int) -> bool:
    """Return whether an expression is outside comments, outside texts whose braces are doubled for Python, and in a program that
    renders no templates itself."""
    before = code[code.rfind("\n", 0, at) + 1 : at]
    return "#" not in before and not _FORMATTED.search(before) and "jinja" not in code
