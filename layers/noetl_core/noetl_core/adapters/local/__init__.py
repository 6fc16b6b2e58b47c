"""The ports on one machine: SQLite (`database` with its `tables`, `events`, `catalog`, `triggers`, `access_tokens`, `rates`,
`limits`, `key_values`), files (`results`, `secrets`, `keys`, `sealer`, and `output`, the output of running tasks), a queue in
memory (`queue`); `packages` installs what python tasks import; `home` finds the folder of the state; `processes` identifies the
holder of a run.

No module here carries out an execution: `noetl_core.runtime.local_runner` does, with the wiring of `noetl_core.runtime.local`.
"""
