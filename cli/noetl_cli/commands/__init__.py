"""The commands, grouped by purpose. Each module registers its commands with the application when it is imported.

`author` (validate, schema), `migrate`, `run`, `operate` (cancel, redrive, signal ...), `inspect` (show, events ...), `views`
(timeline, graph ...), `replay`, `credentials`, `stack` (up, status, down).

A command reads its arguments, calls a backend or the engine, and prints. What commands share is in the package above, not
here.
"""
