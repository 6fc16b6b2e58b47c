"""The ports on one machine: SQLite (`database`, `events`, `catalog`), files (`results`, `secrets`, `keys`, `sealer`), a queue
in memory (`queue`); and `home` and `processes`, which say where the state is and who holds a run.

The runner that uses them is `noetl_core.local`.
"""
