"""Tools: the implementations of the kinds that a task's `kind` names (formal specification 2.4 and 5). A kind is a module, or a
package with its entry in `tool`; it is imported when a task of that kind runs.

* `base` defines the protocols of tools, `registry` finds the tool of a kind, `invoke` is the only way to call a tool.
* The kinds: `noop`, `store`, `secrets`, `llm`, `kv`, `artifact`, `shell`, `http`, `postgres`, `duckdb`, `mcp`, `python`,
  `transfer`, and those that call AWS (`aws`). `cursors` build the calls for loops that claim rows.
* For several kinds: `sql` (statements and rows), `services` (kinds that call a service through `http`), `actions` (kinds with
  actions), `script` (program text from an address), `oauth2` and `grants` (access tokens).
* `sandbox` runs the Python code of authors in separate processes.
* `rows` has rows and objects of any size. `calls` runs blocking and waiting work, `stopping` ends it. `network` decides which
  addresses a task may reach. `masking` keeps secrets out of answers.

Policy, retries by policy, references for large results and the taint of secrets in templates are in `worker`, `engine` and
`expr`. A tool knows the ports only, never an adapter.
"""
