"""The commands, grouped by purpose. Each module registers its commands with the application when it is imported; `load` imports
the one that the command line asks for.

`authoring` has those for authors of playbooks. The others are `run`, `backfill`, `playbooks` (the catalog), `operate` (cancel,
redrive, signal ...), `inspect` (show, why ...), `history` (events, logs), `views` (timeline, graph ...), `replay` (and diff),
`limits`, `credentials`, `triggers`, `serve`, `gc`, `stack` (up, status, down), `console`, `mcp`.

A command reads its arguments, calls a backend or the engine, and prints. Code that commands share is in the package above, not
here.
"""

from importlib import import_module
from typing import Final

from typer import Typer

from noetl_cli.app import app

MODULES: Final = {
    "run": ("run", "register"),
    "backfill": ("backfill",),
    "playbooks": ("playbooks",),
    "authoring.new": ("new",),
    "authoring.author": ("validate", "completion", "schema"),
    "authoring.fmt": ("fmt",),
    "authoring.lsp": ("lsp",),
    "authoring.testing": ("test",),
    "authoring.record": ("record",),
    "inspect": ("ls", "show", "why", "watch", "get"),
    "history": ("events", "logs"),
    "views": ("timeline", "graph", "render", "report", "cost"),
    "replay": ("replay", "diff"),
    "authoring.rehearse": ("rehearse", "bisect"),
    "authoring.simulate": ("simulate",),
    "authoring.plan": ("plan",),
    "authoring.dev": ("dev",),
    "authoring.try_task": ("try",),
    "operate": ("resume", "cancel", "redrive", "pause", "signal", "callback"),
    "serve": ("serve",),
    "gc": ("gc",),
    "limits": ("limits",),
    "stack": ("up", "down", "status"),
    "console": ("console",),
    "mcp": ("mcp",),
    "credentials": ("credentials",),
    "triggers": ("triggers",),
    "authoring.migrate": ("migrate",),
    "authoring.imports": ("import",),
}
"""The commands of each module, in the order of the help."""


def load(name: str = "") -> Typer:
    """Return the application with the command `name` (and its neighbours), or with all commands if there is none of that name.

    Creating the options of all commands takes 15 ms, which a start does not pay for commands that it does not run.
    """
    for module in [module for module, names in MODULES.items() if name in names] or MODULES:
        import_module(f"noetl_cli.commands.{module}")
    places = {f"noetl_cli.commands.{module}": place for place, module in enumerate(MODULES)}
    app.registered_commands.sort(key=lambda command: places[command.callback.__module__] if command.callback else 0)
    return app
