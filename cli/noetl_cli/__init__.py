"""The `noetl` command: `main` finds the command in `commands`, which register with `app`; `options` gives a command its options
as one object.

* `backends` reach executions: the local store in this process, or the HTTP API of a stack.
* `inputs` prepare a run: its payload, its playbook and those in the same folder, packages, services.
* `display` prints for people and programs: progress, results, causes, tables, timelines.
* `terminal` escapes control characters; `process` has the signals and streams of the command, `errors` its exit codes.
* `mcp` serves MCP clients; the commands are in `commands`.
* `pytest_plugin` has the fixture of pytest for tests of playbooks.

Nothing here decides anything about executions: `noetl_core` does. Deploying is in `noetl_infra`, rewriting older dialects in
`noetl_migrate`, the import of state machines in `noetl_import`. Start-up time matters: a command imports only what it uses, rich
only at a terminal, AWS clients only to deploy.
"""
