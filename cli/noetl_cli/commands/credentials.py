"""`noetl credentials`: manages the credentials that playbooks name in their keychain. Values are shown on request to those who
may read them."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import On, Output, app
from noetl_cli.backends.opening import backend
from noetl_cli.display import output
from noetl_cli.errors import USAGE, Exit
from noetl_cli.inputs.payload import json_of

if TYPE_CHECKING:
    from noetl_core.api.shapes.service import Credential

credentials = typer.Typer(no_args_is_help=True, add_completion=False, help="Manage credentials: list, put, show, delete.")
app.add_typer(credentials, name="credentials")

Name = Annotated[str, typer.Argument(metavar="NAME")]


@credentials.command("list")
def list_(prefix: str = "", on: On = None, output_: Output = "text") -> None:
    """List credentials and the playbooks they are for (default: of the local store). Also called ls."""
    with closing(backend(on or "local", None)) as where:
        found = where.api.credentials(prefix or None)["credentials"]
        shown: list[dict[str, Any]] = [{**c} for c in found]
        if output_ == "text":
            shown = [{k: _told(c, on).get(k, "") for k in ("name", "type", "paths")} for c in found]
        output.rows(shown, output_)


credentials.command("ls", hidden=True)(list_)


@credentials.command()
def put(
    name: Name,
    data: Annotated[
        str, typer.Option(help="Fields of the credential: JSON, or @file, or - for standard input", metavar="JSON|@file|-")
    ],
    type: Annotated[str | None, typer.Option(help="Type of the credential: postgres, http, ...")] = None,
    description: str | None = None,
    paths: Annotated[
        list[str] | None,
        typer.Option(
            help="Paths of the playbooks that may read it, such as reports/*; repeatable. A stack requires them; '*' is every"
            " registered playbook (default on local: every playbook)"
        ),
    ] = None,
    on: On = None,
    output_: Output = "text",
) -> None:
    """Store a credential, replacing one of the same name. Others may see --data as text; a file or - stays private."""
    fields = json_of(sys.stdin.read() if data == "-" else data, "--data")
    if not isinstance(fields, dict):
        raise Exit(USAGE, f"--data is a JSON {fields.__class__.__name__}; an object is expected")
    with closing(backend(on or "local", None)) as where:
        put = where.api.put_credential(name, fields, type=type, description=description, paths=paths or None)
        _show(put, on, output_)


@credentials.command()
def show(
    name: Name,
    data: Annotated[bool, typer.Option("--data", help="Also show its contents")] = False,
    on: On = None,
    output_: Output = "text",
) -> None:
    """Show a credential's type and the names of its fields."""
    with closing(backend(on or "local", None)) as where:
        _show(where.api.credential(name, include_data=data or None), on, output_)


@credentials.command()
def delete(name: Name, on: On = None, output_: Output = "text") -> None:
    """Delete a credential."""
    with closing(backend(on or "local", None)) as where:
        output.done(f"{name} deleted", where.api.delete_credential(name), output_)


def _show(found: Credential, on: str | None, how: str) -> None:
    if how == "text":
        output.result(_told(found, on))
    else:
        output.as_data(found, how)


def _told(found: Credential, on: str | None) -> dict[str, object]:
    """Return the row of a credential for people, which always states who may use it."""
    told: dict[str, object] = {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in found.items()}
    if by := found.get("by"):
        told["by"] = f"{by['principal']} ({by['source']})"
    if "paths" in told:
        everyone = "* (every playbook)" if (on or "local") == "local" else "none (no playbook: store it again with --paths)"
        told["paths"] = told["paths"] or everyone
    return told
