"""Reads the steps of an execution: `summary` of one step, `iterations` of its loop, `task_names` (the names visible to a task),
and `render`, which evaluates a template with them. Causes are not here (`explain`).
"""
