"""The worker (data plane): it claims a step run, runs the tasks of its pipeline and loops, and writes the run's stream.

* `service` handles commands; `turns` decides which commands of one process run at the same time.
* `claiming` holds a run: its claim, its stream, its lease.
* `runner` drives one activation, and `task_runner` takes each task from move to move; `activation` is the state that its parts
  share, `run_tree` the tree of loops and passes, `attempt` the current attempt of a task; `pipeline_passes` begins passes.
* `tasks` has the parts of carrying out one task, `loops` runs loops, `waits` has tasks that wait.
* `values` loads and stores values, `secrets` keeps secrets.

The worker never starts a step and never writes to a queue: `control` does. Tool kinds are in `tools`; the rules of the
pipeline (policy, directives, retries) are pure and are in `engine.pipelines`.
"""
