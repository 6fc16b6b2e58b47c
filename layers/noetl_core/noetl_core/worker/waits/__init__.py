"""Tasks that wait: `engine_tasks` carries out `wait`, `callback` and `playbook`; `waiting_passes` holds passes that cannot
continue; `rate_permits` waits for rates; `outside_work` runs tasks whose work another service does, and `stop_run` stops it. No
tool that computes is here (`tasks`)."""
