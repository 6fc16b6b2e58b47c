"""Views of a history: `progress`, `timeline` (`timeline_rows`: of the runs that matter), `graph` (placed by `layout`, drawn by
`svg`), `cost` and `logs` are computed from recorded events (docs/looking.md).

`telemetry` is what Lambda functions send to X-Ray. Nothing here changes an execution or decides anything; reading the log is
done by `control.read`.
"""
