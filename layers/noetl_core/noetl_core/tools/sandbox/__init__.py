"""Runs the Python code of authors in processes apart from the worker.

`fork_server`, `runner`, `confine`, `libraries`, `folders`, `plain`, `views`, `addresses`, `system_calls` and `socket_lender`
run in the separate processes and import the standard library only; `pool` and `socket_broker` are the worker's side. The worker
trusts a runner only to report the outcome of its own task. What `kind: python` takes and returns is in `tools.python.tool`.
"""
