"""The `noetl` command. `main` finds the command, `run` follows executions, `places` is where they live (this process's store or
a stack's HTTP API), `progress` and `render` are what people see. Nothing here decides anything: that is `noetl_core`.

Start-up counts: a command imports what it uses, rich only for people at a terminal, AWS clients only to deploy.
"""
