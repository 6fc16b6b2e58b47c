"""Adapters: implementations of `noetl_core.ports`. `aws` has those over AWS services, `local` those over SQLite and files.

Both use `cipher` (encryption), `clock`, `credentials` (the form of a stored credential), `path_records` (that of what is said
about a playbook's path) and `keys` (which keys objects may have). No rule of execution is here. `wiring` (AWS) and `local` (one
process) choose the adapters; services never import one.
"""
