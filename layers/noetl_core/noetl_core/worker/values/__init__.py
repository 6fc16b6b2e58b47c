"""Values of a run: `execution_view` is the state that it sees, `inputs` loads references, `large_values` reads parts, `offload`
stores large results and makes the scopes of templates, `task_log` keeps the output of tasks. Secrets are not here (`secrets`)."""
