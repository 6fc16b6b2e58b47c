"""The defaults of inputs and options in the table of fields are those of the tools."""

from __future__ import annotations

from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.model import UNSET
from noetl_core.tools import shell, sql, store
from noetl_core.tools.duckdb import tool
from noetl_core.tools.http import options
from noetl_core.tools.python import tool as python
from noetl_quantum import tool as quantum


def test_the_defaults_of_options_are_those_of_the_tools() -> None:
    known = {
        (kind, f.name): f.default for kind, spec in KINDS.items() for f in (*spec.fields, *spec.options) if f.default is not UNSET
    }
    assert known == known | {
        ("http", "max_redirects"): options.MAX_REDIRECTS,
        ("http", "max_response_bytes"): options.MAX_BODY_BYTES,
        ("python", "memory_mb"): python.DEFAULT_MEMORY_MB,
        ("python", "max_output_bytes"): python.MAX_OUTPUT_CHARS,
        ("duckdb", "max_rows"): sql.DEFAULT_MAX_ROWS,
        ("duckdb", "memory_limit"): tool.DEFAULT_MEMORY,
        ("duckdb", "threads"): tool.DEFAULT_THREADS,
        ("postgres", "max_rows"): sql.DEFAULT_MAX_ROWS,
        ("llm", "max_response_bytes"): options.MAX_BODY_BYTES,
        ("mcp", "max_response_bytes"): options.MAX_BODY_BYTES,
        ("shell", "max_output_bytes"): shell.MAX_OUTPUT_CHARS,
        ("shell", "max_result_bytes"): shell.MAX_RESULT_BYTES,
        ("store", "max_bytes"): store.MAX_BYTES,
        ("quantum", "shots"): quantum.DEFAULT_SHOTS,
    }
