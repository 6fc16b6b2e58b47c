"""`noetl lsp`: the language server that editors start."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from noetl_cli.app import app
from noetl_cli.display import pages
from noetl_cli.errors import USAGE, Exit


@app.command()
def lsp(
    stdio: Annotated[bool, typer.Option("--stdio", hidden=True, help="The only way to talk to it; editors add it")] = True,
) -> None:
    """Serve editors by the Language Server Protocol: findings, completion, hover, definitions, renaming, formatting.

    Needs the extra `lsp` of `noetl-serverless`. docs/editors.md explains the set-up of editors.
    """
    if find_spec("pygls") is None:
        raise Exit(USAGE, "noetl lsp needs a package that is not installed: pip install 'noetl-serverless[lsp]'")
    from noetl_lsp.server import run  # 500 ms: needed only to serve editors

    run(f"{pages.folder().parent.as_uri()}/")
