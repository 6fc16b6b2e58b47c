"""`observe` computes views of a history from recorded events (docs/looking.md): `timeline` (`timeline_rows` selects the
runs to show, `critical_path` finds the runs of the critical path), `drawing` (the graph), `cost` and `logs`. `why` explains a
step and `findings` an execution, from the `account` of its tokens and runs (a partial one for a long log). `guards` are
evaluated once more (`evaluation`); `retries`, `progress` and `causes` explain waits, progress and failures; `sentences` and
`counts` have the words. `diff` compares two executions, `event_changes` the events of a commit, `report` is a page about one.
Nothing here changes an execution or decides anything; `views` reads the log."""
