"""Warns about this deployment: `inbound_sources` finds triggers that can never fire, `worker_tools` tasks that its workers cannot
run. Nothing here stops a playbook."""
