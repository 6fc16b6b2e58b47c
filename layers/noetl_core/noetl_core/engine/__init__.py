"""The rules of execution, as pure functions: what the news of an execution changes, and what is to be done next.

* `decide` is the entry: news in, events and effects out. `boundaries`, `distributed_loops`, `routing`, `joins`, `qos`,
  `deadlines`, `waits`, `callbacks`, `workload` and `passes` hold its rules; `reads` foresees which values they need, `needs` is
  how they ask for more, `large_values` asks for parts; `graph` and `places` are the Petri net and the order of its branches.
* `effects`, `commands` and `heads` are what follows from a commit; all of it can be derived again from the log.
* `records` are the values of the event log, `state` is the state of an execution, `statuses` has the words for it, `fold` applies
  events to it (the effects by subject are in `fold_execution`, `fold_limits`, `fold_news`, `fold_runs` and
  `fold_tokens`, registered in `fold_table`), `done_chunks` keeps the finished chunks of loops small, `snapshots` stores it.
* `pipeline`, `policy` and `outcome` are the rules for the tasks of one step run, which the worker applies. `loops` cuts
  collections into chunks and merges the ctx writes of iterations.
* `schedules` decides which `occurrences` of a schedule start.
* `rates` says when tasks that share a rate may begin; `limit_keys` are the keys of what
  executions share, `places_in_limits` asks for places where only so many may be at a time, and `circles` says
  which of what waits would wait for ever.
* `failure_handlers` makes the playbooks that tell webhooks and topics of failures.
* `search` records the attributes by which lists find an execution.
* `aggregates` counts what runs and iterations came to, `warnings` what went wrong without failing anything,
  `ended_runs` keeps the slowest and the failed,
  `step_status` says what steps stand at.
* `redrive` plans what is run again, over the `lineage` of tokens and runs. `ids` derives all identifiers.

Nothing here does input or output, reads a clock, or uses randomness. Loading, committing and sending is done by `control` and
`worker`; events are declared in `events`, the language is read by `dsl`, templates are evaluated by `expr`.
"""
