"""Carrying out one task: `runner` takes it from move to move, and `attempt` is what is known of its current attempt. `inputs`
renders it, `tool_caller` calls its tool, `running_attempts` runs attempts that block on `threads`, `outcomes` judges, stores and
records the outcome. Waiting is not here (`waits`)."""
