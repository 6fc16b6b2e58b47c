"""The rules of execution, as pure functions: they turn the inputs of an execution into changes and next actions.

* `decide` is the entry: inputs in, events and effects out. `routing` has its rules. `reads` predicts which values they need,
  `needs` requests more values, `large_values` asks for parts.
* `claims` are runs that a commit gives to the worker that asked for them.
* `dispatch` has effects and commands, `heads` the summaries in lists; both can be derived again from the log.
* `records` are the values of the event log. `state` is the state of an execution, `statuses` are its statuses, `fold` applies
  events to it, `snapshots` stores it. `done_chunks` keeps finished chunks of loops small.
* `pipelines` and `outcome` are the rules for the tasks of one step run, which the worker applies. `loops` cuts collections into
  chunks and merges the ctx writes of iterations.
* `waits`, `callbacks` and `workload` are the waits of a run, signed tokens of callbacks, and the inputs of an execution.
* `schedules` decides which occurrences of a schedule start. `limits` has the rules of limits that executions share.
* `failure_handlers` makes the playbooks that report failures to webhooks and topics.
* `warnings` counts anomalies that failed nothing; `step_status` is the status of a step.
* `redrive` plans what is run again. `ids` derives all identifiers.

Nothing here does input or output, reads a clock, or uses randomness. Loading, committing and sending is done by `control` and
`worker`; events are declared in `events`, the language is read by `dsl`, templates are evaluated by `expr`.
"""
