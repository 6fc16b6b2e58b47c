"""Composition roots: each module connects the services with adapters.

* In one process: `local` (the wiring), `local_runner` (runs executions to their end), `embedded` (`noetl_core.run`),
  `notebook` (executions in notebooks), `trial` (one task, not recorded).
* On Lambda: `control_wiring` for the control plane, `worker_wiring` for the worker.

No rule of execution is here.
"""
