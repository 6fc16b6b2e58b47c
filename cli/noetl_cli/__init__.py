"""The `noetl` command: `main` finds the command in `commands`, which register with `app`.

* `backends` opens where executions are, a `backend`: `local_backend` is the `local_store` with the services in this process,
  `stack_backend` a stack's HTTP API.
* `payload`, `environments`, `files`, `siblings`, `packages` and `services` are what a run is given: inputs, its playbook and
  those beside it, what its tasks import, what it calls.
* `download` writes results to files; `filters` choose what of a history is shown; `follow` shows how executions get on
  (`progress` folds it, `notices` are what cannot wait), `running` what tasks write meanwhile;
  `told`, `step` and `explain` say what they came to and why, with the `sources` of their places; `output`, `chart`, `differing`
  and `yaml_value` are what people see, at a `terminal` that nothing of it controls; `pages` is where the language reference
  is. `hook_server` takes webhooks of the local store.
* `process` has the signals and streams of the command, `errors` its exit codes.

Nothing here decides anything about executions: `noetl_core` does. Deploying is in `noetl_infra`, rewriting older dialects in
`noetl_migrate`. Start-up time counts: a command imports what it uses, rich only for people at a terminal, AWS clients only to
deploy.
"""
