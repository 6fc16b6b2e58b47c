"""Holding a run: `claim` takes it (`handled` is the result of a command), `journal` writes its stream for the `recorder` of
events, `run_lease` and `lease_heartbeat` renew its lease, `gates` reads whether it may continue, `asker` asks for the run that
follows. No task is run here."""
