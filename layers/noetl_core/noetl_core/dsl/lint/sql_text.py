"""SQL as text: which parameters it names, and parsers that say where it is wrong.

DuckDB's SQL is read by DuckDB itself, which only parses it: no file, no extension, no statement that is carried out.
PostgreSQL's is read by `sqlglot`, where that is installed (the extra `sql`; it is not in the layer). Both are loaded only for a
playbook with such a task.
"""

from __future__ import annotations

import json
import logging
import re
from functools import cache
from typing import Any, Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.reading.sql_code import code_of
from noetl_core.values.frozen import frozen

LONGEST: Final = 10_000
"""Characters of a text that is parsed."""
BRACKETS: Final = 40
"""Opening brackets of a text that is parsed: a parser may take very long over thousands."""
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_WORD: Final = re.compile(r"\s*([A-Za-z_]+)")
_LINE: Final = re.compile(r"\nLINE (\d+): (.*)\n( *)\^")
_STATEMENTS: Final = words(
    "abort alter analyze analyse begin call checkpoint close cluster comment commit copy create deallocate declare delete"
    " discard do drop end execute explain fetch grant import insert listen load lock merge move notify prepare reassign refresh"
    " reindex release reset revoke rollback savepoint security select set show start table truncate unlisten update vacuum"
    " values with"
)
"""The words that statements of PostgreSQL begin with."""
_DOUBT: Final = re.compile(
    r"\[|\b(?:overriding|current\s+of|at\s+local|(?:null|absent)\s+on|xml\w*|json\w*|is\s+(?:not\s+)?json|only|operator|glob|search|cycle"
    r"|tablesample|using\s*\([^()]*\)\s+as)\b",
    re.IGNORECASE,
)
"""SQL of PostgreSQL that `sqlglot` may not know."""
_PARSED: Final = words("select insert update delete with")
"""Statements that are read to their end."""


@frozen
class Wrong:
    """An error in a text: its line and column, both from 1, and the reason."""

    line: int
    column: int
    why: str


def filled(text: str) -> tuple[str, int]:
    """Return the text with a name of the same length in place of each template, and where the first one stands."""
    first = _TEMPLATE.search(text)
    return _TEMPLATE.sub(lambda found: "x" * len(found[0]), text), len(text) if first is None else first.start()


def wrong_for(kind: str, text: str) -> Wrong | None:
    """Return where SQL does not parse; None where that is not certain."""
    if len(text) > LONGEST or "{%" in text or "{#" in text or "..." in text:
        return None
    if text.count("(") + text.count("[") > BRACKETS:
        return None
    whole, first = filled(text)
    found = _duckdb(whole) if kind == "duckdb" else _postgres(whole)
    if found is None or first == len(text):
        return found
    lines = whole.splitlines(keepends=True)
    before = sum(map(len, lines[: found.line - 1])) + found.column
    return found if before + 40 < first else None


# --- DuckDB -------------------------------------------------------------------------------------------------------------


def _duckdb(text: str) -> Wrong | None:
    database = _parser()
    if database is None:
        return None
    try:
        database.extract_statements(text)
    except Exception as error:  # each release has another type for it
        message = str(error).removeprefix("Parser Error: ")
        if not message.startswith(("syntax error at or near", "unterminated")):
            return None
        line, column = _place(text, message)
        return Wrong(line, column, message.partition("\n")[0])
    return None


def _place(text: str, message: str) -> tuple[int, int]:
    """Return line and column of an error, from the part of its line that DuckDB shows; the end of the line if it shows none."""
    place = _LINE.search(message)
    line = 1 if place is None else int(place[1])
    whole = text.split("\n")[line - 1]
    if place is None:
        return line, len(whole) + 1
    excerpt = place[2].removeprefix("...")
    start = whole.find(excerpt.removesuffix("..."))
    inside = len(place[3]) - len(f"LINE {line}: ") - (len(place[2]) - len(excerpt))
    return line, len(whole) + 1 if start < 0 else start + inside + 1


@cache
def _parser() -> Any:
    """Return a database in memory without access to anything; None if DuckDB is not installed."""
    try:
        import duckdb  # 60 ms: only playbooks with such a task
    except ImportError:
        return None
    closed: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "enable_external_access": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(":memory:", config=closed)


# --- PostgreSQL ---------------------------------------------------------------------------------------------------------


def _postgres(text: str) -> Wrong | None:
    """Return an error in a text: in the first word of a statement, or in the rest of one that reads or writes rows."""
    code = code_of(text)
    start = 0
    for part in code.split(";"):
        word = _WORD.match(part)
        if word is not None and word[1].lower() not in _STATEMENTS:
            return Wrong(*_at(text, start + word.start(1)), f'"{word[1]}" begins no statement')
        start += len(part) + 1
    words = {found[1].lower() for part in code.split(";") if (found := _WORD.match(part)) is not None}
    return _sqlglot(text) if words and words <= _PARSED and _DOUBT.search(code) is None else None


def _sqlglot(text: str) -> Wrong | None:
    try:
        import sqlglot  # 100 ms: only playbooks with such a task
        from sqlglot.errors import ParseError, TokenError
    except ImportError:
        return None
    bound = re.sub(r"%\((\w+)\)[sbt]|%[sbt]", lambda found: "$1".ljust(len(found[0])), text).replace("%%", "% ")
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        sqlglot.parse(bound, read="postgres")
    except ParseError as error:
        about = error.errors[0] if error.errors else {}
        line, end, excerpt = about.get("line"), about.get("col"), str(about.get("highlight") or "")
        if not line or not end:
            return Wrong(1, 1, "it does not parse")
        return Wrong(line, max(end - len(excerpt) + 1, 1), f'syntax error at or near "{excerpt[:40]}"')
    except (TokenError, RecursionError, ValueError):
        return None
    finally:
        log.disabled = before
    return None


def _at(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


# --- columns ------------------------------------------------------------------------------------------------------------


@cache
def selected_columns(kind: str, text: str) -> tuple[str, ...] | None:
    """Return the names of the columns of a text that is one SELECT, as the database gives them; None where they are not
    certain."""
    if len(text) > LONGEST or text.count("(") > BRACKETS or not re.match(r"\s*(?:select|with)\b", text, re.IGNORECASE):
        return None
    return _columns_of_duckdb(text) if kind == "duckdb" else _columns_of_postgres(text)


def _columns_of_duckdb(text: str) -> tuple[str, ...] | None:
    database = _parser()
    if database is None:
        return None
    try:
        found = json.loads(database.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()[0])
    except Exception:  # each release has another type for it
        return None
    statements = found.get("statements") or []
    node = statements[0].get("node", {}) if len(statements) == 1 else {}
    names = [part.get("alias") or (part.get("column_names") or [""])[-1] for part in node.get("select_list") or ()]
    return tuple(names) if names and all(names) else None


def _columns_of_postgres(text: str) -> tuple[str, ...] | None:
    try:
        import sqlglot  # 100 ms: only playbooks with such a task
        from sqlglot import exp
    except ImportError:
        return None
    try:
        parsed = sqlglot.parse(re.sub(r"%\((\w+)\)[sbt]|%[sbt]", "$1", text).replace("%%", "%"), read="postgres")
    except Exception:  # the columns of a text that it cannot parse are unknown
        return None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Select) or parsed[0].is_star:
        return None
    names = [
        (part.alias_or_name if _quoted(part) else part.alias_or_name.lower()) if isinstance(part, exp.Alias | exp.Column) else ""
        for part in parsed[0].selects
    ]
    return tuple(names) if names and all(names) else None


def _quoted(part: Any) -> bool:
    name = part.args.get("alias") or part.this
    return bool(name.args.get("quoted"))
