"""The parts of carrying out one task: `inputs` renders it, `tool_caller` calls its tool, `running_attempts` runs attempts that
block on `threads`, `outcomes` judges, stores and records the outcome. Waiting is not here (`waits`)."""
