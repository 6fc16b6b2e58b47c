"""One routing pass over the state of an execution.

* `passes` is the working state of a pass. `boundaries` applies inputs; `rules` moves tokens through arcs and admission to
  completion; `joins` fires joins; `distributed_loops` schedules chunks; `deadlines` ends overdue runs.
* `graph` is the playbook as a Petri net, `qos` the priority and deduplication of tokens.
* `limit_requests` requests places in shared limits; `search_attributes` records the attributes by which lists filter.

Nothing here commits or sends: `control.core` does.
"""
