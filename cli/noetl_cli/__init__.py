"""The `noetl` command: `main` finds the command in `commands`, which register with `app`; `options` gives a command its options
as one object.

* `backends` opens a `backend`: `local_backend` is the `local_store` with the services in this process, `stack_backend` the HTTP
  API of a stack.
* `payload`, `environments`, `files`, `siblings`, `packages` and `services` prepare a run: its inputs, its playbook and those in
  the same folder, the packages that its tasks import, the services that it calls.
* `download` writes results to files; `filters` select events and logs; `follow` shows the progress of executions (`progress`
  folds it, `notices` are urgent lines), `running` the output of running tasks; `execution_output`, `step` and `explain` print
  results and causes, with places named by `sources`; `output`, `chart`, `differing` and `yaml_value` format for people;
  `terminal` escapes control characters; `pages` finds the language reference. `hook_server` takes webhooks of the local store.
* `plugins` finds the kinds of a playbook whose distribution is not installed.
* `process` has the signals and streams of the command, `errors` its exit codes.

Nothing here decides anything about executions: `noetl_core` does. Deploying is in `noetl_infra`, rewriting older dialects in
`noetl_migrate`. Start-up time matters: a command imports only what it uses, rich only at a terminal, AWS clients only to deploy.
"""
