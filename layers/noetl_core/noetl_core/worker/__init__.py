"""The worker (data plane): it claims a step run, runs the tasks of its pipeline and loops, and writes the run's stream.

* `service` handles commands; `claim` claims a run (`run_lease` is its lease); `handled` is the result of a command.
* `runner` drives one activation (`activation` is the state its parts share). `pipeline_passes` begins passes; `waiting_passes`
  holds those that sleep or wait; `rate_permits` decides when a rate lets them begin; `waiting` carries out the kinds of the
  engine itself; `running_attempts` runs tools on `threads`; `outside_work` runs tasks whose work another service does, and
  `stop_run` stops such work of ended runs.
* `loop_runner` runs loops. `loop_collections` evaluates their items and numbers; `loop_chunks` slices them; `loop_spread` decides
  when the rest is handed over (`processor` measures the CPU); `loop_frames` claims the rows of a cursor (`frame_items` holds
  them); `loop_results` collects the results and writes of iterations. `nodes` is the tree of a run.
* `task_inputs` renders a task and `inputs` loads its references; `tool_caller` calls its tool; `task_log` keeps its output;
  `outcomes` judges, stores and records the outcome (`outcome_meta`, `offload`).
* `recorder` and `journal` write the run's stream, `lease_heartbeat` renews its lease.
* `turns` decides which commands of one process run at the same time.
* `view`, `large_values`, `keychain`, `credentials`, `gates` and `tokens` give a run its values. `secret_results` turns results
  into secrets; `sealing` preserves a run's secrets over a suspension.

The worker never starts a step and never writes to a queue: `control` does. Tool kinds are in `tools`; the rules of the
pipeline (policy, directives, retries) are pure and are in `engine.pipeline` and `engine.policy`.
"""
