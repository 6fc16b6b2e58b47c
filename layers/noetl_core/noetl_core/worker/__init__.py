"""The worker (data plane): it claims a step run, runs the tasks of its pipeline and loops, and writes the run's stream.

* `service` claims a run and ends it. `runner` and `loop_runner` drive one activation. `tool_caller` calls the tools.
* `journal` writes the run's stream; `lease_heartbeat` renews its lease; `run_history` folds what the stream already holds;
  `carried_over` folds what a redriven run keeps of earlier runs.
* `view`, `inputs`, `credentials`, `gates` and `tokens` give a run its values. `sealing` keeps its secrets over a suspension.

The worker never starts a step and never writes to a queue: `control` does. Tool kinds are in `tools`; the rules of the
pipeline (policy, directives, retries) are pure and are in `engine.pipeline` and `engine.policy`.
"""
