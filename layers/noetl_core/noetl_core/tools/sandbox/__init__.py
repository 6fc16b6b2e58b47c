"""Runs the Python code of authors in processes apart from the worker.

`pool` and `socket_broker` are the worker's side. All other modules run in the separate processes and import only the standard
library and `values.large_json`: `fork_server` starts a `runner` for a code, and for one with network a `socket_broker` beside it,
which gets the runner's sockets from a `socket_lender`; `confine`, `system_calls` and `addresses` confine them; `libraries`,
`folders`, `operands`, `plain` and `views` are parts of the runner. `stacks` runs on both sides. The worker trusts a runner only
to report the outcome of its own task. The inputs and results of `kind: python` are in `tools.python.tool`.
"""
