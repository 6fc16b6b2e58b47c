"""SQL of tasks: texts that do not parse (W529), parameters that they do not take (W530), and templates where a parameter belongs
(W531)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from noetl_core.dsl.lint.context import Lint, listed
from noetl_core.dsl.lint.sql_text import wrong_for
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.positions import place_in_code
from noetl_core.dsl.reading.sql_code import NUMBERED, code_of
from noetl_core.dsl.steps.scripts import text_of
from noetl_core.expr import is_template
from noetl_core.values.frozen import frozen

LONGEST: Final = 40_000
"""Characters of SQL of one playbook that are parsed: validation has a budget of time."""
_KINDS: Final = ("postgres", "duckdb")
_TEXTS: Final = ("command", "query", "sql", "commands", "queries")
_PARAMS: Final = ("params", "args")
_NAMED: Final = re.compile(r"(?<![\w$])\$([A-Za-z_]\w*)(?!\w*\$)")
_PERCENT: Final = re.compile(r"%(?:%|\((\w+)\)[sbt]|([sbt])|(.?))", re.DOTALL)
_VALUE: Final = re.compile(
    r"(?:(?<![<>!=])(?:=|<>|!=|<=|>=|<|>)|\bI?LIKE)\s*(?:'[^'{}]{0,20})?(\{\{.*?\}\})(?![\w.({])"
    r"|\bVALUES\s*\(\s*(?:[^(){}]{0,200},\s*)?'?(\{\{.*?\}\})(?=\s*'?\s*[,)])",
    re.IGNORECASE | re.DOTALL,
)
_ROWS: Final = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|MERGE)\b", re.IGNORECASE)
_READS: Final = re.compile(r"[A-Za-z_]")


@frozen
class _Statement:
    """A text of SQL with its parameters."""

    kind: str
    text: str
    params: Node | None
    task: Node
    """The task, or the source of a `transfer`."""
    written: Node
    """The place of the text; for a text in a file, the place that names the file."""
    file: str = ""


def statements(lint: Lint) -> None:
    """W529, W530 and W531 for the SQL of tasks of `postgres` and `duckdb`, and of sources of `transfer`."""
    left = LONGEST
    for one in _statements(lint):
        if _spliced(lint, one):
            continue
        left -= len(one.text)
        wrong = wrong_for(one.kind, one.text) if left >= 0 else None
        if wrong is not None:
            message = f"this SQL does not parse: {wrong.why}"
            _report(lint, one, "W529", (wrong.line, wrong.column), message, "correct it, or try it with the database")
        elif not is_template(one.text):
            found = _of_postgres(one) if one.kind == "postgres" else _of_duckdb(one)
            if found is not None:
                _report(lint, one, "W530", None, *found)


def _report(lint: Lint, one: _Statement, code: str, at: tuple[int, int] | None, message: str, hint: str) -> None:
    """Report a finding at a line and a column of the text, or about all of it."""
    if one.file:
        line = "" if at is None else f":{at[0]}:{at[1]}"
        lint.report(code, one.written, f"{one.file}{line}: {message}", hint)
    elif at is None:
        lint.report(code, one.written, message, hint)
    else:
        lint.r.report_at(code, place_in_code(lint.r.loaded, one.written, *at), one.written.path, message, hint)


def _statements(lint: Lint) -> Iterator[_Statement]:
    for task in lint.kinds(*_KINDS, "transfer"):
        kind = str(task.value["kind"].value)
        if kind != "transfer":
            yield from _of_task(lint, kind, task)
            continue
        source = task.get("source")
        database = source.get("kind") if source is not None else None
        if source is not None and database is not None and database.value in _KINDS:
            yield from _of_task(lint, database.value, source)


def _of_task(lint: Lint, kind: str, task: Node) -> Iterator[_Statement]:
    shared = next((task.value[key] for key in _PARAMS if key in task.value), None)
    for key in _TEXTS:
        part = task.get(key)
        if part is None:
            continue
        for one in part.value if isinstance(part.value, list) else [part]:
            if isinstance(one.value, str) and one.value.strip():
                yield _Statement(kind, one.value, shared, task, one)
            elif isinstance(one.value, dict):
                text, own = one.get("command"), one.get("params")
                if text is not None and isinstance(text.value, str) and text.value.strip():
                    yield _Statement(kind, text.value, shared if own is None else own, task, text)
    script = task.get("script")
    found = None if script is None else text_of(lint.root, script)
    if script is not None and found is not None and found[1].strip():
        yield _Statement(kind, found[1], shared, task, script, found[0])


def _spliced(lint: Lint, one: _Statement) -> bool:
    """W531: a template whose value becomes a part of the text, where a value belongs. Return whether there is one."""
    if "{{" not in one.text or not _ROWS.match(one.text):
        return False
    for found in _VALUE.finditer(one.text):
        template = 1 if found[1] else 2
        if not _READS.search(found[template]):
            continue
        at = found.start(template)
        line, column = one.text.count("\n", 0, at) + 1, at - one.text.rfind("\n", 0, at)
        message = f"{found[template][:60]} becomes a part of the SQL, whatever it holds"
        placeholder = "$value" if one.kind == "duckdb" else "%(value)s"
        hint = f'give it as a parameter: params: {{ value: "{found[template][:60]}" }}, and write {placeholder} without quotes'
        _report(lint, one, "W531", (line, column), message, hint)
        return True
    return False


# --- parameters ---------------------------------------------------------------------------------------------------------


def _of_postgres(one: _Statement) -> tuple[str, str] | None:
    """Return message and hint for parameters as `psycopg` takes them: `%s` for a list, `%(name)s` for a mapping."""
    text, params = one.text, one.params
    if one.task.get("rows") is not None or (params is not None and not isinstance(params.value, list | dict)):
        return None
    numbered, marks = NUMBERED.search(code_of(text)), list(_PERCENT.finditer(text))
    plain = sum(1 for mark in marks if mark[2])
    names = list(dict.fromkeys(mark[1] for mark in marks if mark[1]))
    if params is None:
        first = next((mark for mark in _PERCENT.finditer(code_of(text)) if mark[1] or mark[2]), None)
        if first is None and numbered is None:
            return None
        return f"the SQL takes {(first or numbered or [''])[0]}, and the task has no params", "params: [ ... ], or { name: ... }"
    if numbered is not None and not plain and not names:
        form = "%s for each, in order" if isinstance(params.value, list) else "%(name)s"
        return f"the SQL has {numbered[0]}, and params of postgres are written differently", f"write {form}"
    odd = next((mark for mark in marks if mark[3] is not None and mark[0] != "%%"), None)
    if odd is not None and params.value:
        return f"{odd[0]!r} in the SQL is not a parameter", "with params, a percent sign is written %%"
    return (
        _name_mismatch(names, params, "%(name)s")
        if names or isinstance(params.value, dict)
        else _count_mismatch(plain, params, "%s")
    )


def _of_duckdb(one: _Statement) -> tuple[str, str] | None:
    """Return message and hint for parameters as DuckDB takes them: `?` or `$1` for a list, `$name` for a mapping."""
    text, params = one.text, one.params
    if params is not None and not isinstance(params.value, list | dict):
        return None
    code = code_of(text)
    names = list(dict.fromkeys(_NAMED.findall(code)))
    if params is None:
        numbered = NUMBERED.search(code)
        first = f"${names[0]}" if names else numbered[0] if numbered is not None else ""
        return (f"the SQL takes {first}, and the task has no params", "params: { name: ... }, or [ ... ]") if first else None
    if re.search(r"%s|%\(\w+\)s", code):
        return "the SQL has %s, and params of duckdb are written differently", "write $name for a mapping, ? for a list"
    if isinstance(params.value, dict):
        return _name_mismatch(names, params, "$name") if names else None
    numbers = [int(number) for number in NUMBERED.findall(code)]
    if numbers:
        return _count_mismatch(max(numbers), params, "$1")
    return _count_mismatch(code.count("?"), params, "?") if "?" in code and "->" not in code else None


def _name_mismatch(names: list[str], params: Node, form: str) -> tuple[str, str] | None:
    if isinstance(params.value, list):
        return (f"the SQL takes {form}, and params is a list", "params: { name: ... }") if names and params.value else None
    missing = [name for name in names if name not in params.value]
    if not missing:
        return None
    return (
        f"the SQL takes {listed(missing)}, which params does not have",
        f"it has {', '.join(map(str, params.value)) or 'nothing'}",
    )


def _count_mismatch(count: int, params: Node, form: str) -> tuple[str, str] | None:
    if not isinstance(params.value, list) or count == len(params.value):
        return None
    placeholders, values = (
        f"{n} {noun}{'' if n == 1 else 's'}" for n, noun in ((count, "placeholder"), (len(params.value), "value"))
    )
    return f"the SQL has {placeholders} {form}, and params has {values}", "one value for each, in order"
