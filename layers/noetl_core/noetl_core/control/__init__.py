"""The control plane: it admits requests, turns inputs into commits of control streams, and sends commands to workers.

* `core.Control` is the only way from inputs to a commit and its effects; `cached_states` keeps what it reads again. `admit`
  starts executions, `lifecycle` operates on existing ones, `callbacks` records answers, `children` starts and ends child
  executions, `failures` starts handlers of failures.
* `asks` answers workers that ask for their boundaries. `fence` ends runs. `deaths` counts processes that end in an evaluation,
  and `recorded_deaths` records them in the log. `unreadable_logs` handles executions whose log is corrupt.
* `catalog` registers playbooks and resolves versions; `recent_registrations` caches what was just registered. `credentials` lists
  and keeps credentials. `triggers` start playbooks.
* `limits` grants places in limits that executions share. `sweeping` repairs stalled executions. `deployment` warns about
  missing capabilities of this deployment. `refusals` are the errors that requests are answered with.

The rules themselves are pure and are in `engine`. Reading is in `views`. No module here runs a tool: `worker` does.
"""
