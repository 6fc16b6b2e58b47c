"""Tools: the implementations of the kinds that a task's `kind` names (formal specification 2.4 and 5). One module per kind;
it is imported when a task of that kind runs.

* `base` says what a tool is, `registry` finds the tool of a kind, `invoke` is the one way a tool is called.
* The kinds: `noop`, `python`, `http` (with `http_request`, `http_client`, `http_body`, `http_redirects` and `http_errors`),
  `postgres` (with `postgres_address`, `postgres_connections` and `postgres_errors`; COPY: `postgres_copy`, `postgres_export` and
  `postgres_parquet`), `duckdb` (with `duckdb_sources`, and `duckdb_pipes` for CSV through a pipe; `scratch`: its settings),
  `store` and `secrets`; `sql` is what the SQL kinds share, `row_sources` reads rows from what a task was given.
* `event_loop` is what calls that wait for sockets share, `lookups` looks names up for them.
* `scrub` and `shapes` keep secrets out of answers; `net` decides which addresses a task may reach; `watch` interrupts calls.
* `sandbox` runs the Python code of authors in separate processes.

Policy, retries by policy, references for large results and the taint of secrets in templates are in `worker`, `engine` and
`expr`. A tool knows the ports only, never an adapter.
"""
