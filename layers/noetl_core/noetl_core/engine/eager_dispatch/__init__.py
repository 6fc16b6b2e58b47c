"""Eager dispatch: `asks` are requests of workers for the runs that follow, `claims` the runs that a commit gives to a worker.
Nothing here calls a function: `control.asks` answers."""
