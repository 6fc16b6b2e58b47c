"""Carrying out one task: `inputs` renders it, `tool_caller` calls its tool, `running_attempts` runs attempts that block on
`threads`, `outcomes` judges, stores and records the outcome (`outcome_meta`). Waiting is not here (`waits`)."""
