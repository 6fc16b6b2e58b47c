"""Views of a history: `timeline` (`timeline_rows`: of the runs that matter), `drawing` (the graph), `cost` and `logs` are
computed from recorded events (docs/looking.md).

`why` explains a step and `findings` an execution, from the `account` of its tokens and runs (a `partial` one of a long log),
with `guards` evaluated once more (`evaluation`), `retries`, what is `under_way`, and the `causes` of failures; `sentences` and
`counts` have the words. `diff` compares two executions, `report` is a page about one.

`telemetry` is what Lambda functions send to X-Ray. Nothing here changes an execution or decides anything; reading the log is
done by `views.executions.executions`.
"""
