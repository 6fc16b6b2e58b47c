"""The program text of `python` tasks: it must compile, and define the function that is to be called (E304, E305). The names that
it reads are kept for lint."""

from __future__ import annotations

import warnings
from typing import Final

from noetl_core import python_code
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.positions import place_in_code
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import is_template

SHOWN: Final = 80
"""Characters of a line of code that a message repeats."""


def check_program(r: Reader, code: Node | None, entry: Node | None, what: str) -> None:
    """Report a syntax error in the code of a task at its place in the playbook, or else an entry that the code does not
    define."""
    if code is None or not isinstance(code.value, str) or len(code.value) > r.programs_left:
        return
    r.programs_left -= len(code.value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecation warnings: Python issues them where the code runs
            python_code.compiled(code.value)
            names = python_code.names_of(code.value)
    except SyntaxError as error:
        _report(r, code, error, what)
        return
    except (ValueError, RecursionError, MemoryError) as error:
        r.report("E304", code, f"code of {what} does not compile: {error or type(error).__name__}")
        return
    r.program_reads[code.value] = names.read
    name, known = (entry.value if entry is not None else None), names.defined
    if entry is not None and isinstance(name, str) and not is_template(name) and known is not None and name not in known:
        r.report("E305", entry, f"code of {what} defines no {name}", suggest(name, known))


def _report(r: Reader, code: Node, error: SyntaxError, what: str) -> None:
    line = max(error.lineno or 1, 1)
    lines = code.value.splitlines()
    text = lines[line - 1] if line <= len(lines) else ""
    excerpt = text.strip()[:SHOWN] + ("..." if len(text.strip()) > SHOWN else "")
    message = f"code of {what}, line {line}: {error.msg}" + (f": {excerpt}" if excerpt else "")
    r.report_at("E304", place_in_code(r.loaded, code, line, max(error.offset or 1, 1)), code.path, message)
