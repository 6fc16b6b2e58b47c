"""Grants limits that executions share (docs/limits.md): `places` grants them, `displacement` takes them from the oldest holders,
`deadlocks` refuses the newest waiter of a cycle. The rules are not here: they are in `engine.limits`."""
