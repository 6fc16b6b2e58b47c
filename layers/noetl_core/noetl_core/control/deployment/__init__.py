"""Warnings about this deployment: `inbound_sources` finds triggers that nothing reaches, `worker_tools` tasks that its workers
cannot run. Nothing here stops a playbook: they are warnings."""
