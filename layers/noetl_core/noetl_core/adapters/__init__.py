"""Adapters: implementations of `noetl_core.ports` - `aws` over AWS services, `local` over SQLite and files - and what both
share.

No rule of execution is here. `wiring` (AWS) and `local` (one process) choose the adapters; services never import one.
"""
