"""The kinds that query, move or keep data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.dsl.fields.kind import (
    BYTES,
    COUNT,
    DATABASE_ERRORS,
    FLAG,
    MAP,
    SCRIPT,
    SERVICE_ERRORS,
    TEXT,
    Action,
    KindSpec,
    words,
)
from noetl_core.dsl.fields.types import Anything, Block, Choice, Duration, Field, also
from noetl_core.dsl.numbers import KEPT

_COMMAND: Final = Field(
    "command", Anything("SQL text, or a list of them"), "The SQL to run. Values belong in `params`, never in the text."
)
_COMMANDS: Final = Field("commands", Anything("a list"), "Several statements: texts, or mappings `{command, params}`.")
_PARAMS: Final = Field("params", Anything("a mapping or a list"), "Values for the statement's parameters.")
SQL: Final = (*also(_COMMAND, "query", "sql"), SCRIPT, *also(_COMMANDS, "queries"), *also(_PARAMS, "args"))
_SECRET: Final = Field("secret", TEXT, "The name of the credential.")

MAX_ROWS: Final = Field(
    "max_rows", COUNT, "Rows that the result may have; more is an error, never silent truncation.", default=100_000
)

EACH: Final = Field(
    "each_statement",
    FLAG,
    "true keeps the result of each of several statements, in `commands` of the result.",
    otherwise="true if a template of the playbook reads a `command_<n>`",
    link="views.md#command_n",
)

SQL_NAMES: Final = words("command commands query queries sql script")

_TABLE: Final = words("rows columns row_count commands")
_REFERENCE: Final = words("kind store key size checksum format rows schema_hint")
TABLE_OR_REFERENCE: Final = _TABLE | _REFERENCE
"""The fields of a result, as a table and as a reference to one."""

COPY: Final = Block(
    "copy",
    "Copies rows into a table (`from`, `into`), or out of it (`query` or `table`, `to`).",
    "../tools/postgres.md#copy",
    Field("from", Anything("rows, or references to rows"), "Copying in: the rows to copy into the table.", references=True),
    Field("into", TEXT, "Copying in: the table to fill, as `table` or `schema.table`."),
    Field(
        "columns",
        Anything("a list, or a mapping of columns to names in the source"),
        "The columns to copy.",
        otherwise="those of the source, or of the table",
    ),
    Field("mode", Anything("`append`, `replace` or `upsert`"), "Copying in: what happens to existing rows.", default="append"),
    Field("keys", Anything("a list of columns"), "Copying in, with `upsert`: the columns that identify a row."),
    Field(
        "format",
        Anything("`json`, `jsonl`, `csv` or `parquet`"),
        "Copying in: the format of what `from` refers to.",
        otherwise="by the reference, or its extension",
    ),
    Field(
        "header", FLAG, "For copying from CSV: if false, the first line is data, and `columns` names the fields.", default=True
    ),
    Field("delimiter", TEXT, "Copying CSV in: the field separator.", default=","),
    Field("query", TEXT, "Copying out: the SQL whose rows are written."),
    Field("table", TEXT, "Copying out: the table to write to the file, instead of a query."),
    Field(
        "to",
        Anything("`csv`, `jsonl` or `parquet`"),
        "Copying out: the format of the file. The result of the task is a reference to the file.",
    ),
)

SOURCES: Final[dict[str, frozenset[str]]] = {
    "rows": words("rows format"),
    "postgres": words("auth connection database query table columns params"),
    "duckdb": words("command params sources attach database"),
    "http": words("url method params headers json auth format"),
    "s3": words("uri format"),
    "snowflake": words("auth connection query table columns params database schema warehouse role"),
}
"""The inputs of a source, by its kind."""
TARGETS: Final[dict[str, frozenset[str]]] = {
    "postgres": words("auth connection database table"),
    "duckdb": words("database table"),
    "s3": words("uri format"),
}
"""The inputs of a target, by its kind."""

SOURCE: Final = Block(
    "source",
    "Where a transfer reads: `rows`, or a kind and its fields.",
    "../tools/transfer.md#sources",
    Field(
        "kind", Anything("`rows`, `postgres`, `duckdb`, `http`, `s3` or `snowflake`"), "The kind of source.", otherwise="`rows`"
    ),
    Field("rows", Anything("rows, or references to rows"), "Kind `rows`: the rows themselves.", references=True),
    Field(
        "format",
        Anything("`json`, `jsonl`, `csv` or `parquet`"),
        "Kinds `rows`, `http` and `s3`: the format of the file that holds the rows.",
        otherwise="by the reference, or its extension",
    ),
    Field("auth", Anything("a name or a mapping"), "Kinds `postgres`, `snowflake` and `http`: the credential."),
    Field("connection", Anything("text or a mapping"), "Kinds `postgres` and `snowflake`: the same as `auth`."),
    Field("database", TEXT, "Another database on the same server; for kind `duckdb`, a file."),
    *(
        Field(name, TEXT, f"Kind `snowflake`: the {name} of the session.", otherwise="that of the credential")
        for name in ("schema", "warehouse", "role")
    ),
    Field("query", TEXT, "Kinds `postgres` and `snowflake`: the SQL whose rows are transferred."),
    Field("table", TEXT, "Kinds `postgres` and `snowflake`: the table to transfer, instead of a query."),
    Field(
        "command",
        Anything("SQL text, or a list of them"),
        "Kind `duckdb`: the SQL; the rows of its last statement are transferred.",
    ),
    Field("sources", MAP, "Kind `duckdb`: as in a task of that kind.", references=True),
    Field("attach", MAP, "Kind `duckdb`: as in a task of that kind."),
    Field(
        "params",
        Anything("a mapping or a list"),
        "Values for the SQL's parameters; for kind `http`, query parameters.",
    ),
    Field("columns", Anything("a list of columns"), "Kinds `postgres` and `snowflake`, with `table`: the columns to read."),
    Field("url", TEXT, "Kind `http`: the address whose answer contains the rows."),
    Field("method", TEXT, "Kind `http`: as in a task of that kind."),
    Field("headers", MAP, "Kind `http`: as in a task of that kind."),
    Field("json", Anything("any value"), "Kind `http`: as in a task of that kind."),
    Field("uri", TEXT, "Kind `s3`: the objects, as `s3://bucket/path/*.csv`."),
)
TARGET: Final = Block(
    "target",
    "Where a transfer writes.",
    "../tools/transfer.md#targets",
    Field("kind", Anything("`postgres`, `duckdb` or `s3`"), "The kind of target.", required=True),
    Field("auth", Anything("a name or a mapping"), "Kind `postgres`: the credential to connect with."),
    Field("connection", Anything("text or a mapping"), "Kind `postgres`: the same as `auth`."),
    Field("database", TEXT, "Another database on the same server; for kind `duckdb`, a file."),
    Field("table", TEXT, "The table to fill."),
    Field("uri", TEXT, "Kind `s3`: the folder to write to, as `s3://bucket/path/`."),
    Field("format", Anything("`jsonl`, `csv` or `parquet`"), "Kind `s3`: the format of the objects.", default="jsonl"),
)  # fmt: skip


def _in_memory(values: Mapping[str, Any]) -> bool:
    """Return whether a task of kind `duckdb` reads neither files in S3 nor another database."""
    sources = values.get("sources")
    texts = sources.values() if isinstance(sources, Mapping) else ()
    return not any(values.get(name) for name in ("auth", "attach", "script")) and not any(isinstance(t, str) for t in texts)


KINDS: Final[dict[str, KindSpec]] = {
    "duckdb": KindSpec(
        (
            *SQL,
            Field(
                "database", TEXT, "The file that keeps the tables, in the scratch folder of the execution.", otherwise="in memory"
            ),
            *also(
                Field(
                    "auth",
                    Anything("a name or a mapping"),
                    "The credential for files in S3: its name, its fields, or a mapping of one alias to the name or the fields.",
                ),
                "credential",
            ),
            Field(
                "sources",
                MAP,
                "Tables for the SQL, by name: rows, references to stored rows, or objects in S3 (`s3://bucket/path/*.parquet`).",
                references=True,
            ),
            Field(
                "attach",
                MAP,
                "Tables of PostgreSQL for the SQL: a mapping of schemas to `{auth, tables, queries}`. They are read before the"
                " commands run.",
            ),
            Field(
                "to",
                Anything("`parquet`, `csv` or `jsonl`"),
                "Writes the rows of the last statement to a file; the result of the task is a reference to it.",
                otherwise="the rows are the result",
            ),
        ),
        (
            MAX_ROWS,
            EACH,
            Field(
                "memory_limit",
                TEXT,
                "Memory that DuckDB may use; on a stack at most three quarters of the worker's memory.",
                default="1GB",
            ),
            Field("threads", COUNT, "Threads that DuckDB may use.", default=2),
        ),
        "../tools/duckdb.md",
        required=(SQL_NAMES,),
        exclusive=(SQL_NAMES, words("params args"), words("auth credential")),
        script="command",
        gives=TABLE_OR_REFERENCE,
        inside=_in_memory,
        fails=DATABASE_ERRORS | SERVICE_ERRORS,
    ),
    "postgres": KindSpec(
        (
            *SQL,
            *also(
                Field("auth", Anything("a name or a mapping"), "The credential to connect with: its name, or its fields."),
                "credential",
            ),
            Field(
                "connection",
                Anything("text or a mapping"),
                "Another name of `auth`: the name of a credential, its fields, or a connection string.",
            ),
            Field("database", TEXT, "Another database on the same server.", otherwise="that of the credential"),
            Field("rows", Anything("a list"), "Runs the one command for each of these rows."),
            Field("copy", COPY, "Copies rows of any size in or out, instead of running a command.", references=True),
            Field(
                "pool",
                Anything("a name or a mapping"),
                "A pool of connections. Accepted without effect: a worker keeps its connections itself.",
                effect=False,
                link="migrate.md#without-effect",
            ),
        ),
        (
            MAX_ROWS,
            EACH,
            Field("read_only", FLAG, "true makes the transaction read-only.", default=False),
            Field(
                "statement_timeout",
                Anything("a number of seconds"),
                "Seconds that one statement may take.",
                otherwise="the timeout of the task",
            ),
            Field(
                "isolation",
                TEXT,
                "The isolation level of the transaction, such as `serializable`.",
                otherwise="that of the server",
            ),
        ),
        "../tools/postgres.md",
        required=(SQL_NAMES | {"copy"},),
        exclusive=(SQL_NAMES | {"copy"}, words("params args"), words("auth connection credential")),
        script="command",
        gives=_TABLE | words("rows_read") | _REFERENCE,
        fails=DATABASE_ERRORS | SERVICE_ERRORS,
    ),
    "transfer": KindSpec(
        (
            Field("source", SOURCE, "Where the rows come from.", required=True, references=True),
            Field("target", TARGET, "Where the rows go.", required=True),
            Field(
                "mode",
                Choice(("append", "replace", "upsert"), template=True),
                "What happens to existing rows.",
                default="append",
            ),
            Field("keys", Anything("a list of columns"), "With `upsert`: the columns that identify a row."),
            Field(
                "columns",
                Anything("a list, or a mapping of columns to names in the source"),
                "The columns to transfer.",
                otherwise="those of the source",
            ),
        ),
        (Field("chunk_rows", COUNT, "Rows per chunk; each chunk is committed as a whole.", default=10_000),),
        "../tools/transfer.md",
        required=(words("source"), words("target")),
        gives=words("rows_read rows_written chunks table uri objects"),
        fails=DATABASE_ERRORS | SERVICE_ERRORS,
    ),
    "noop": KindSpec(
        (
            Field("args", MAP, "The result of the task if neither `result` nor `data` is given."),
            Field("result", Anything("any value"), "The result of the task.", otherwise="`data`, else `args`, else null"),
            Field("data", Anything("any value"), "The result of the task if `result` is not given."),
            Field("message", TEXT, "Text for the log of the task."),
        ),
        (),
        "../tools/README.md#noop",
        inside=lambda _: True,
        fails=frozenset(),
    ),
    "store": KindSpec(
        (
            Field(
                "data", Anything("any value"), "The value to store. The result of the task is a reference to it.", references=True
            ),
            Field(
                "key",
                TEXT,
                "The name of the object, relative to the execution's own prefix in the store.",
                otherwise="derived from the task run, so that a retry writes the same object",
            ),
            Field(
                "format",
                Anything("`json`, `jsonl`, `csv` or `parquet`"),
                "How the value is written.",
                otherwise="by the extension of `key`, else `json`",
            ),
            Field(
                "schema_hint",
                Anything("any value"),
                "The reference's description of the value.",
                otherwise="derived from the value",
            ),
        ),
        (Field("max_bytes", BYTES, "Maximum bytes that the task may write.", default=512 * 1024 * 1024),),
        "../tools/store.md",
        required=(words("data"),),
        inside=lambda _: True,
        fails=frozenset(),
    ),
    "kv": KindSpec(
        (
            *also(
                Field(
                    "action",
                    Choice(("get", "put", "delete", "list"), template=True),
                    "What to do with a value, or with the values of a bucket.",
                    default="get",
                ),
                "operation",
            ),
            Field("bucket", TEXT, "The bucket of the key; buckets need not be created.", default="default"),
            Field("key", TEXT, "The key of the value."),
            Field("value", Anything("any value"), "The value that `put` stores."),
            Field("default", Anything("any value"), "What `get` returns if there is no value.", otherwise="null"),
            Field("ttl", Duration(KEPT), "How long the value lasts.", otherwise="until it is deleted"),
            Field("if_revision", TEXT, "The revision that the value must have; otherwise `put` and `delete` fail."),
            Field("if_absent", Anything("true or false"), "true makes `put` fail if there is a value.", default=False),
            Field("prefix", TEXT, "The prefix of the keys that `list` returns.", otherwise="all keys of the bucket"),
        ),
        (Field("max_keys", COUNT, "Values that `list` may return; more is an error, never silent truncation.", default=1000),),
        "../tools/kv.md",
        exclusive=(words("action operation"), words("if_revision if_absent")),
        actions={
            "get": Action((words("key"),), words("bucket default")),
            "put": Action((words("key"), words("value")), words("bucket ttl if_revision if_absent")),
            "delete": Action((words("key"),), words("bucket if_revision")),
            "list": Action((), words("bucket prefix")),
        },
        inside=lambda _: True,
        fails=words("client_error"),
    ),
    "artifact": KindSpec(
        (
            *also(
                Field(
                    "action",
                    Choice(("get", "put"), template=True),
                    "What to do: put an artifact for others to read, or get one.",
                    default="get",
                ),
                "operation",
            ),
            Field("key", TEXT, "The name of the artifact; in all playbooks it means the same artifact."),
            Field("data", Anything("any value"), "What `put` stores; a reference is copied as it is.", references=True),
            Field("version", TEXT, "The id of the execution that stored the artifact.", otherwise="the one that stored it last"),
            Field(
                "format",
                Choice(("auto", "json", "jsonl", "csv", "parquet", "text", "base64", "reference"), template=True),
                "How `put` writes the value, and `get` returns it. `auto` decides by the key's extension and the value.",
                default="auto",
            ),
            Field(
                "ttl",
                Duration(KEPT),
                "How long the name refers to the artifact.",
                otherwise="as long as the results of its execution last",
            ),
        ),
        (
            Field("max_value_bytes", BYTES, "Maximum bytes of an artifact that is read as a value.", default=64 * 1024 * 1024),
            Field("max_bytes", BYTES, "Maximum bytes of an artifact.", default=20 * 1024**3),
        ),
        "../tools/artifact.md",
        required=(words("key"),),
        exclusive=(words("action operation"),),
        actions={
            "get": Action((words("key"),), words("version format")),
            "put": Action((words("key"), words("data")), words("format ttl")),
        },
        inside=lambda _: True,
        fails=frozenset(),
    ),
    "secrets": KindSpec(
        (
            *also(_SECRET, "secret_name", "key"),
            Field("field", TEXT, "The one field to return.", otherwise="all fields"),
            *(
                Field(
                    name, Anything("anything"), f"{what} Accepted without effect.", effect=False, link="migrate.md#without-effect"
                )
                for name, what in {
                    "provider": "Which store the secret is in: the deployment has one.",
                    "project_id": "Whose store it is.",
                    "region": "Where the store is.",
                    "version": "Which version of the secret: the current one is read.",
                }.items()
            ),
        ),
        (),
        "../tools/secrets.md",
        required=(words("secret secret_name key"),),
        exclusive=(words("secret secret_name key"),),
        inside=lambda _: True,
        fails=frozenset(),
    ),
}
