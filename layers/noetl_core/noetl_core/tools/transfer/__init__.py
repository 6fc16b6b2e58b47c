"""`kind: transfer`: rows from a source to a target, chunk by chunk (docs/tools/transfer.md).

* `tool` reads what the author wrote and moves the chunks; `staged` makes of a source something that does not change any more,
  and reads it from any row on.
* `target` says what a target is; `postgres_target`, `duckdb_target` and `s3_target` are those there are. `typed` is for a source
  that knows the types of its columns.

A plugin offers a kind of source by a tool with `export` (`base.SourceTool`); nothing here knows which there are.

A chunk and the note that it is there are one transaction of the target: a transfer that is interrupted continues behind its last
chunk, and nothing is there twice.
"""
