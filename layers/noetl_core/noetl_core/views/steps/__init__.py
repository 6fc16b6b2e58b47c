"""Steps of an execution: `summary` of one step, `iterations` of its loop, `task_names` (the names that a task saw), and
`render`, which evaluates a template with them. Causes are not here (`explain`)."""
