"""SQL of tasks: texts that do not parse (W529), parameters that they do not take (W530), and templates where a parameter belongs
(W531)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from noetl_core.dsl.lint.context import Lint, listed
from noetl_core.dsl.lint.sql_text import code_of, wrong_for
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.positions import place_in_code
from noetl_core.expr import is_template

LONGEST: Final = 40_000
"""Characters of SQL of one playbook that are parsed: validation has a budget of time."""
_TEXTS: Final = ("command", "query", "sql", "commands", "queries")
_PARAMS: Final = ("params", "args")
_NUMBERED: Final = re.compile(r"(?<![\w$])\$(\d+)\b")
_NAMED: Final = re.compile(r"(?<![\w$])\$([A-Za-z_]\w*)(?!\w*\$)")
_PERCENT: Final = re.compile(r"%(?:%|\((\w+)\)[sbt]|([sbt])|(.?))", re.DOTALL)
_VALUE: Final = re.compile(
    r"(?:(?<![<>!=])(?:=|<>|!=|<=|>=|<|>)|\bI?LIKE)\s*(?:'[^'{}]{0,20})?(\{\{.*?\}\})(?![\w.({])"
    r"|\bVALUES\s*\(\s*(?:[^(){}]{0,200},\s*)?'?(\{\{.*?\}\})(?=\s*'?\s*[,)])",
    re.IGNORECASE | re.DOTALL,
)
_ROWS: Final = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|MERGE)\b", re.IGNORECASE)
_READS: Final = re.compile(r"[A-Za-z_]")


def statements(lint: Lint) -> None:
    """W529, W530 and W531 for the SQL that is written in tasks of `postgres` and `duckdb`."""
    left = LONGEST
    for task in lint.kinds("postgres", "duckdb"):
        kind = str(task.value["kind"].value)
        for text, params in _texts(task):
            if _spliced(lint, text):
                continue
            left -= len(text.value)
            wrong = wrong_for(kind, text.value) if left >= 0 else None
            if wrong is not None:
                place = place_in_code(lint.r.loaded, text, wrong.line, wrong.column)
                lint.r.report_at(
                    "W529", place, text.path, f"this SQL does not parse: {wrong.why}", "correct it, or try it with the database"
                )
            elif not is_template(text.value):
                found = _of_postgres(text.value, params, task) if kind == "postgres" else _of_duckdb(text.value, params)
                if found is not None:
                    lint.report("W530", text, *found)


def _texts(task: Node) -> Iterator[tuple[Node, Node | None]]:
    """Yield each text of SQL with its parameters."""
    shared = next((task.value[key] for key in _PARAMS if key in task.value), None)
    for key in _TEXTS:
        part = task.get(key)
        if part is None:
            continue
        for one in part.value if isinstance(part.value, list) else [part]:
            if isinstance(one.value, str) and one.value.strip():
                yield one, shared
            elif isinstance(one.value, dict):
                text, own = one.get("command"), one.get("params")
                if text is not None and isinstance(text.value, str) and text.value.strip():
                    yield text, shared if own is None else own


def _spliced(lint: Lint, text: Node) -> bool:
    """W531: a template whose value becomes a part of the text, where a value belongs. Return whether there is one."""
    if "{{" not in text.value or not _ROWS.match(text.value):
        return False
    for found in _VALUE.finditer(text.value):
        template = 1 if found[1] else 2
        if not _READS.search(found[template]):
            continue
        at = found.start(template)
        line, column = text.value.count("\n", 0, at) + 1, at - text.value.rfind("\n", 0, at)
        message = f"{found[template][:60]} becomes a part of the SQL, whatever it holds"
        place = _placeholder(lint, text)
        hint = f'give it as a parameter: params: {{ value: "{found[template][:60]}" }}, and write {place} without quotes'
        lint.r.report_at("W531", place_in_code(lint.r.loaded, text, line, column), text.path, message, hint)
        return True
    return False


def _placeholder(lint: Lint, text: Node) -> str:
    path = list(text.path)
    while path:
        kind = lint.at(tuple(path)).get("kind")
        if kind is not None:
            return "$value" if kind.value == "duckdb" else "%(value)s"
        path.pop()
    return "%(value)s"


# --- parameters ---------------------------------------------------------------------------------------------------------


def _of_postgres(text: str, params: Node | None, task: Node) -> tuple[str, str] | None:
    """Return message and hint for parameters as `psycopg` takes them: `%s` for a list, `%(name)s` for a mapping."""
    if task.get("rows") is not None or (params is not None and not isinstance(params.value, list | dict)):
        return None
    numbered, marks = _NUMBERED.search(code_of(text)), list(_PERCENT.finditer(text))
    plain = sum(1 for mark in marks if mark[2])
    names = list(dict.fromkeys(mark[1] for mark in marks if mark[1]))
    if params is None:
        first = next((mark for mark in _PERCENT.finditer(code_of(text)) if mark[1] or mark[2]), None)
        if first is None and numbered is None:
            return None
        return f"the SQL takes {(first or numbered or [''])[0]}, and the task has no params", "params: [ ... ], or { name: ... }"
    if numbered is not None and not plain and not names:
        wanted = "%s for each, in order" if isinstance(params.value, list) else "%(name)s"
        return f"the SQL has {numbered[0]}, and params of postgres are written otherwise", f"write {wanted}"
    odd = next((mark for mark in marks if mark[3] is not None and mark[0] != "%%"), None)
    if odd is not None and params.value:
        return f"{odd[0]!r} in the SQL is no parameter", "with params, a percent sign is written %%"
    return _named(names, params, "%(name)s") if names or isinstance(params.value, dict) else _counted(plain, params, "%s")


def _of_duckdb(text: str, params: Node | None) -> tuple[str, str] | None:
    """Return message and hint for parameters as DuckDB takes them: `?` or `$1` for a list, `$name` for a mapping."""
    if params is not None and not isinstance(params.value, list | dict):
        return None
    code = code_of(text)
    names = list(dict.fromkeys(_NAMED.findall(code)))
    if params is None:
        numbered = _NUMBERED.search(code)
        first = f"${names[0]}" if names else numbered[0] if numbered is not None else ""
        return (f"the SQL takes {first}, and the task has no params", "params: { name: ... }, or [ ... ]") if first else None
    if re.search(r"%s|%\(\w+\)s", code):
        return "the SQL has %s, and params of duckdb are written otherwise", "write $name for a mapping, ? for a list"
    if isinstance(params.value, dict):
        return _named(names, params, "$name") if names else None
    numbers = [int(number) for number in _NUMBERED.findall(code)]
    if numbers:
        return _counted(max(numbers), params, "$1")
    return _counted(code.count("?"), params, "?") if "?" in code and "->" not in code else None


def _named(names: list[str], params: Node, form: str) -> tuple[str, str] | None:
    if isinstance(params.value, list):
        return (f"the SQL takes {form}, and params is a list", "params: { name: ... }") if names and params.value else None
    missing = [name for name in names if name not in params.value]
    if not missing:
        return None
    return (
        f"the SQL takes {listed(missing)}, which params does not have",
        f"it has {', '.join(map(str, params.value)) or 'nothing'}",
    )


def _counted(wanted: int, params: Node, form: str) -> tuple[str, str] | None:
    if not isinstance(params.value, list) or wanted == len(params.value):
        return None
    return f"the SQL takes {wanted} of {form}, and params has {len(params.value)}", "one value for each, in order"
