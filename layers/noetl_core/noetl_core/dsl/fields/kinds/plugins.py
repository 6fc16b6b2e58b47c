"""The kind `snowflake`, which a distribution of its own carries out, as `quantum` (in `calls`) is."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.kind import TEXT, KindSpec, words
from noetl_core.dsl.fields.kinds.data import EACH, MAX_ROWS, SQL, SQL_NAMES, TABLE_OR_REFERENCE
from noetl_core.dsl.fields.types import Anything, Field, also

KINDS: Final[dict[str, KindSpec]] = {
    "snowflake": KindSpec(
        (
            *SQL,
            *also(
                Field("auth", Anything("a name or a mapping"), "The credential to connect with: its name, or its fields."),
                "credential",
                "connection",
            ),
            *(
                Field(name, TEXT, f"The {name} of the session.", otherwise="that of the credential")
                for name in ("database", "schema", "warehouse", "role")
            ),
            Field("rows", Anything("a list"), "Runs the one command for each of these rows."),
            Field(
                "to",
                Anything("`csv` or `jsonl`"),
                "Writes the rows of the last statement to a file; the result of the task is a reference to it.",
                otherwise="the rows are the result",
            ),
        ),
        (
            MAX_ROWS,
            EACH,
            Field(
                "statement_timeout",
                Anything("a number of seconds"),
                "Seconds that one statement may take.",
                otherwise="the timeout of the task",
            ),
        ),
        "../tools/snowflake.md",
        required=(SQL_NAMES,),
        exclusive=(SQL_NAMES, words("params args"), words("auth credential connection"), words("rows to")),
        script="command",
        gives=TABLE_OR_REFERENCE,
    ),
}
