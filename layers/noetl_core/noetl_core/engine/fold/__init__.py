"""The fold of the control stream: `control_stream.fold` applies one event to the state of an execution. The effects of events are
in `execution`, `inputs`, `runs`, `tokens` and `limits`, registered in `table`.

`aggregates` summarises runs and iterations, `ended_runs` keeps the slowest and the failed runs, `branch_places` orders the
branches of an execution. Nothing here decides what happens next.
"""
