"""Commands for the stack: up, down, status."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from noetl_cli.app import On, Output, app
from noetl_cli.display import output
from noetl_cli.errors import FAILED, UNREACHABLE, USAGE, Exit


@app.command()
def up(
    endpoint: Annotated[
        str | None, typer.Option(help="Deploy to this endpoint instead of an embedded stack", metavar="URL")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port of the embedded stack (default 4566, or a free one)")] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            help="Further tool kinds for the workers: a folder with a pyproject.toml, a wheel, or a requirement", metavar="DIST"
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter of template.yaml, such as ToolBuckets=reports; repeatable", metavar="NAME=VALUE"),
    ] = None,
    packages: Annotated[
        list[str] | None,
        typer.Option(
            help="Packages of python tasks: a playbook with requirements, a folder of playbooks, or a requirements.txt",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Start the embedded AWS stack and deploy template.yaml to it. A stack that is up keeps the options of an earlier `up`."""
    try:
        from noetl_core.ports import MissingPackages  # 600 ms, with the next: needed only to bring a stack up
        from noetl_infra.deploy import DeployFailed, WrongParameter
        from noetl_infra.stack import StackDown
        from noetl_infra.up import up as bring_up
    except ModuleNotFoundError as missing:
        install = "install noetl-serverless[stack] (uvx --from 'noetl-serverless[stack]' noetl up)"
        raise Exit(USAGE, f"`noetl up` needs {missing.name}, which the extra `stack` brings: {install}") from None

    began = time.monotonic()
    try:
        parameters = _parameters(set_ or ())
        running = bring_up(endpoint=endpoint, port=port, tools=tools or (), packages=packages or (), parameters=parameters)
    except StackDown as error:
        raise Exit(UNREACHABLE, str(error)) from None
    except WrongParameter as error:
        raise Exit(USAGE, str(error)) from None
    except MissingPackages as error:
        raise Exit(USAGE, str(error)) from None
    except DeployFailed as error:
        raise Exit(FAILED, f"deploying failed: {error}") from None
    print(f"the stack is up at {running.endpoint} ({time.monotonic() - began:.1f} s)")
    print(f"API   {running.api_url}/api")
    print(f"inbox s3://{running.outputs['InboxBucketName']}/triggers/<playbook path>/...")
    print("pages noetl console --on stack")
    kept = [f"--set {name}={value}" for name, value in running.parameters.items() if name not in parameters]
    kept += [f"--tools {each}" for each in running.tools if not tools] + [
        f"--packages {each}" for each in running.packages if not packages
    ]
    if kept:
        print(f"kept  {' '.join(kept)} (from an earlier `noetl up`, until `noetl down`)")


def _parameters(entries: Sequence[str]) -> dict[str, str]:
    """Return parameters by name, from `NAME=VALUE`."""
    pairs = [entry.partition("=") for entry in entries]
    if wrong := [name for name, equals, _ in pairs if not equals or not name]:
        raise Exit(USAGE, f"--set {wrong[0]}: write NAME=VALUE, for example --set ToolBuckets=reports")
    return {name: value for name, _, value in pairs}


@app.command()
def down() -> None:
    """Stop the embedded stack."""
    from noetl_infra import stack  # 25 ms: needed only to query a stack

    print("stopped" if stack.down() else "no stack was up here")


@app.command()
def status(on: On = None, output_: Output = "text") -> None:
    """Show the stack that `noetl up` started, or another one, with its queues. Exit code 3 if the stack does not answer."""
    from noetl_cli.backends.opening import api_url  # 30 ms, with the next: needed only to query a stack
    from noetl_cli.backends.stack import StackBackend, own_token
    from noetl_infra import stack

    known = None
    if on == "local":
        raise Exit(USAGE, "the local store has no status; noetl ls lists its executions")
    if on is None:
        known = stack.current()
        if known is None or not known.alive:
            raise Exit(UNREACHABLE, stack.absent() if known is None else f"the stack at {known.endpoint} does not answer")
    url = api_url(None if on == "stack" else on) if known is None else known.api_url
    api = StackBackend(url, own_token()).api
    facts = {
        "endpoint": known and known.endpoint,
        "pid": known and known.pid,
        "api": url,
        **api.health(),
        "queues": api.queue()["pools"],
    }
    if output_ == "text":
        output.result({k: v for k, v in facts.items() if v is not None})
    else:
        output.as_data(facts, output_)
