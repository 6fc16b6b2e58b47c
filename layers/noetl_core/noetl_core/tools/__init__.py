"""Tools: the implementations of the kinds that a task's `kind` names (formal specification 2.4 and 5). One module per kind;
it is imported when a task of that kind runs.

* `base` defines the protocols of tools, `registry` finds the tool of a kind, `invoke` is the only way to call a tool.
* The kinds, each with the modules that only it uses:
  `noop`, `store`, `secrets`, `llm`; `shell` (`marked_processes` ends leftover processes);
  `mcp` (`mcp_connection`, `mcp_messages`);
  `python` (`python_reads`);
  `http` (`http_request`, `http_options`, `http_client`, `http_exchange`, `http_body`, `http_content`, `http_storing`,
  `http_redirects`, `http_errors`, `http_auth`);
  `postgres` (`postgres_address`, `postgres_connections`, `postgres_errors`; COPY: `postgres_copy`, `postgres_export`,
  `postgres_parquet`);
  `duckdb` (`duckdb_sources`, `duckdb_attach`, `duckdb_results`; `duckdb_memory` for its limit;
  `duckdb_pipes` for CSV through a pipe; `scratch`, its
  settings).
* `sql` is shared by the SQL kinds; `row_sources` reads rows from inputs and references; `stored_rows` writes files of rows.
* `cursors` build the calls for loops that claim rows.
* `services` is shared by the kinds that call a service through `http`.
* `oauth2` (with `oauth2_request` and `grants`) requests access tokens; `tokens` and `execution_tokens` cache them.
* `blocking` runs blocking work beside the event loop; `scrubbed_results` keeps secrets out of stored objects.
* `transfer` moves rows chunk by chunk.
* `event_loop` runs the calls that wait for sockets; `lookups` resolves names for them.
* `kv` stores small values; `artifact` publishes values for other executions.
* `bodies` writes and reads objects of any size; `outlined` outlines JSON while it is written; `stopping` ends long work.
* `aws` has the kinds that call AWS services; `actions` checks the inputs of kinds with actions.
* `script` fetches program text from the address that a task names.
* `scrub` and `shapes` keep secrets out of answers; `credential_fields` names the fields that are none.
* `net` decides which addresses a task may reach; `watch` interrupts calls.
* `sandbox` runs the Python code of authors in separate processes; `packages` finds what it imports, in the layers of a stack.

Policy, retries by policy, references for large results and the taint of secrets in templates are in `worker`, `engine` and
`expr`. A tool knows the ports only, never an adapter.
"""
