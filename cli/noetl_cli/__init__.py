"""The `noetl` command: `main` finds the command in `commands`; `backends` is where executions are (the store of this process,
or a stack's HTTP API); `follow` shows their progress; `output` and `chart` are what people see.

Nothing here decides anything about executions: `noetl_core` does. Deploying is in `noetl_infra`, rewriting older dialects in
`noetl_migrate`. Start-up time counts: a command imports what it uses, rich only for people at a terminal, AWS clients only to
deploy.
"""
