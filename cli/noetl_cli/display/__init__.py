"""Prints executions, for people or as data.

* `follow` shows the progress of executions: `progress` folds it, `notices` are urgent lines; `running` prints the output of
  running tasks.
* `execution_output`, `step` and `explain` print results and causes, with places named by `sources`.
* `output`, `chart` and `differing` format tables, timelines and differences; `filters` select events and logs.
* `download` writes results to files; `pages` finds the language reference on this machine.

Nothing here changes an execution. Rich is imported only at a terminal.
"""
