"""Limits that executions share (docs/limits.md): `places` grants them, `displacement` takes them from the oldest, `deadlocks`
refuses the newest waiter of a cycle. The rules are not here, but in `engine.limits`."""
