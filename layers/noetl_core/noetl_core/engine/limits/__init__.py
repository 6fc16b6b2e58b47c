"""Limits that executions share, as pure rules: `keys` of limits, `rates`, and `cycles` of executions that wait for each other.
Nothing here reads a limit: `control.limits` does."""
