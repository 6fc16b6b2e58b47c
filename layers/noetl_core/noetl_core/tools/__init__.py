"""Tools: the adapters that a task's `kind` names (formal spec 2.4 and 5). One module per kind, imported when a task of it runs.

Here live the kinds themselves and how they are found; policy, retries by policy, references for large results and the taint of
secrets in templates belong to the worker. A tool knows the ports only, never an adapter.
"""
