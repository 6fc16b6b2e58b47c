"""The `noetl` command. `main` finds the command in `commands`, `backends` is where executions live (this process's
store or a stack's HTTP API), `follow` shows their progress, `output` and `chart` are what people see. Nothing here decides
anything: that is `noetl_core`.

Start-up counts: a command imports what it uses, rich only for people at a terminal, AWS clients only to deploy.
"""
