"""`kind: transfer`: rows from a source to a target, chunk by chunk (docs/tools/transfer.md).

* `tool` reads the inputs and moves the chunks; `staged` copies a source into an unchanging form, and reads it from any
row on.
* `target` says what a target is; `postgres_target`, `duckdb_target` and `s3_target` are those there are. `typed` is for a source
  that knows the types of its columns.

A plugin offers a kind of source by a tool with `export` (`base.SourceTool`); the kinds are not listed here.

A chunk and the record of it are written in one transaction of the target: an interrupted transfer continues after its last chunk,
and no row is written twice.
"""
