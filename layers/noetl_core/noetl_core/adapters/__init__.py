"""Adapters: implementations of `noetl_core.ports`. `aws` has the adapters over AWS services, `local` those over SQLite and files.

Both use `cipher` (encryption), `clock`, `credentials` (the format of stored credentials), `path_records` (the format of records
about playbook paths), `keys` (which object keys are valid) and `marks` (the executions that a process was evaluating when it
ended). No rule
of execution is here. `noetl_core.runtime` chooses the adapters; services never import one.
"""
