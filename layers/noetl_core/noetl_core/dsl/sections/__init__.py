"""The sections of a playbook beside its steps.

* `keychain`, `shared_limits`, `requirements`, `failures` (who is notified) and `search` (attributes of executions).
* `triggers`, with `inbound_triggers` for those that wait for deliveries.
* `workbook_uses` (tasks of other playbooks) and `called_playbooks` (what `kind: playbook` calls).

Steps are not here (`steps`).
"""
