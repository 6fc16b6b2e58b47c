"""The worker (data plane): it claims a step run, runs the tasks of its pipeline and loops, and writes the run's stream.

* `service` takes commands; `claim` claims a run (`run_lease` is the lease it holds), `handled` says what became of the command.
* `runner` drives one activation (`activation` is what its parts share): `pipeline_passes` begins passes, `waiting_passes` has
  those that sleep or wait, `rate_permits` when a rate lets them begin,
  `waiting` the tasks that the engine itself carries out, `running_attempts` those on `threads`.
* `loop_runner` runs loops: `loop_collections` has their items and numbers, `loop_chunks` cuts them, `loop_spread` says when the
  rest is handed over (`processor` measures what holds it up), `loop_frames` claims the rows of a cursor (`frame_items` has them),
  `loop_results` collects what iterations leave. `nodes` is the tree
  of a run.
* `task_inputs` renders a task and `inputs` loads its references; `tool_caller` calls its tool; `task_log` keeps what it prints;
  `outcomes` judges, stores and records the outcome (`outcome_meta`, `offload`).
* `recorder` and `journal` write the run's stream, `lease_heartbeat` renews its lease.
* `turns` says which commands of one process run at the same time.
* `view`, `large_values`, `keychain`, `credentials`, `gates` and `tokens` give a run its values. `secret_results` makes secrets
  of what a task gives, `sealing` keeps a run's secrets over a suspension.

The worker never starts a step and never writes to a queue: `control` does. Tool kinds are in `tools`; the rules of the
pipeline (policy, directives, retries) are pure and are in `engine.pipeline` and `engine.policy`.
"""
