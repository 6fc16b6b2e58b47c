"""The control plane: it admits requests, turns news into commits of control streams, sends commands to workers, and answers
reads.

* `core.Control` is the one way from news to a commit and its effects. `admit` starts executions, `operate`, `batch`,
  `redrive` and `callbacks` take requests about existing ones, `children` starts and ends child executions, `failures` what
  handles failures, `backfill` what makes up for the past, `limits` gives places in limits that executions share,
  `displacement` takes them from the oldest, `deadlocks` ends waits for them that would never end, `fence` ends runs,
  `deaths` counts processes that end in an evaluation (`left_behind` records them), `uploads` handles the inbox,
  `credentials` lists and keeps credentials, `catalog` says which version of a playbook starts, and keeps aliases, tags and
  deletions.
* `registration` registers playbooks and installs their triggers, and `triggers` starts them by themselves; `ways_in` says which
  triggers nothing can reach, and `worker_tools` what workers lack.
* `reconcile` repairs one execution from its log; `sweep` does so for all that are due; `dead_letters` handles messages that a
  queue gave up; `unreadable` handles executions whose log cannot be read.
* `read`, `pages`, `event_pages`, `seek`, `backwards` (from what `snapshot_search` finds), `envelopes`, `cursor`, `recent`,
  `changes`, `listing`, `labels`, `stats`, `doing`, `waiting`, `step_summary`, `iterations` (found by `loop_streams`),
  `limit_views`, `objects`, `views` (with `layouts`), `timelines`, `metering` (what it costs), `run_at`, `render` (`task_names`
  for what tasks saw), `replay`, `why` and `diff` (which compares `visits`) answer reads; the last two read the log through
  `log_parts`, and `log_search` finds the parts of a long one that they need.
* `operations` answers the requests of the API (`noetl_core.api`), `refusals` says how requests are refused. `answering` adds the
  rights of callers, and `service` is that with all operations.

The rules themselves are pure and are in `engine`. No module here runs a tool: `worker` does.
"""
