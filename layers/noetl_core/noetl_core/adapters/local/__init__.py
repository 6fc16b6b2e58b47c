"""The ports on one machine: SQLite (`database`, `events`, `catalog`, `triggers`, `tokens`, `rates`, `limits`, `key_values`),
files (`results`, `secrets`, `keys`, `sealer`, and `output`, what running tasks write),
a queue in memory (`queue`); `packages`, which installs what python tasks import; `home` and `processes`, which say where the
state is and who holds a run.

No module here carries out an execution: `noetl_core.local_runner` does, with the wiring of `noetl_core.local`.
"""
