"""Repairs stalled executions: `sweep` finds those that are due, `reconcile` repairs one execution from its log, `dead_letters`
handles
messages that a queue gave up. Nothing here decides: it routes the recorded inputs."""
