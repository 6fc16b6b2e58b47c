"""Ways to reach executions.

* `backend` is the interface that commands use. `opening` chooses one: `local` is the `local_store` with the services in this
  process, `stack` the HTTP API of a stack.
* `called_playbooks` registers the playbooks in the same folder that a playbook calls.
* `hook_server` takes webhooks of the local store.

Nothing here prints: `display` does.
"""
