"""Tools: the implementations of the kinds that a task's `kind` names (formal specification 2.4 and 5). One module per kind;
it is imported when a task of that kind runs.

* `base` says what a tool is, `registry` finds the tool of a kind, `invoke` is the one way a tool is called.
* The kinds, each with what only it uses:
  `noop`, `store`, `secrets`, `llm`; `shell` (`marked_processes` ends what it leaves);
  `mcp` (`mcp_connection`, `mcp_messages`);
  `python` (`python_reads`);
  `http` (`http_request`, `http_options`, `http_client`, `http_exchange`, `http_body`, `http_content`, `http_storing`,
  `http_redirects`, `http_errors`, `http_auth`);
  `postgres` (`postgres_address`, `postgres_connections`, `postgres_errors`; COPY: `postgres_copy`, `postgres_export`,
  `postgres_parquet`);
  `duckdb` (`duckdb_sources`, `duckdb_attach`, `duckdb_results`; `duckdb_pipes` for CSV through a pipe; `scratch`, its
  settings).
* `sql` is what the SQL kinds share, `row_sources` reads rows from what a task was given, `stored_rows` says where files of
  rows are kept.
* `cursors` say what is asked of a kind whose rows a loop claims.
* `services` is what kinds share that ask a service through `http`.
* `oauth2` (with `oauth2_request` and `grants`) fetches access tokens, `tokens` and `execution_tokens` keep them.
* `blocking` runs what blocks beside the event loop, `scrubbed_results` keeps secrets out of what tools store.
* `transfer` moves rows chunk by chunk.
* `event_loop` is what calls that wait for sockets share, `lookups` looks names up for them.
* `kv` keeps small values, `artifact` what executions make for others.
* `bodies` writes and reads objects of any size, `outlined` outlines JSON as it is written, `stopping` says when to leave off.
* `aws` has the kinds that ask AWS's services; `actions` checks what an action is given.
* `script` fetches program text that a task names by its address.
* `scrub` and `shapes` keep secrets out of answers; `net` decides which addresses a task may reach; `watch` interrupts calls.
* `sandbox` runs the Python code of authors in separate processes; `packages` finds what it imports, in the layers of a stack.

Policy, retries by policy, references for large results and the taint of secrets in templates are in `worker`, `engine` and
`expr`. A tool knows the ports only, never an adapter.
"""
