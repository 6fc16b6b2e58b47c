"""Commands that run playbooks: register, run."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noetl_cli import files as playbook_files
from noetl_cli import output
from noetl_cli.app import On, Output, Quiet, Store, app
from noetl_cli.backends import backend
from noetl_cli.errors import USAGE, Exit, say
from noetl_cli.payload import check_sets, payload_of, put
from noetl_core.dsl.numbers import PRIORITY
from noetl_core.dsl.versions import BadVersion, Version, split_version
from noetl_core.values.mappings import deep_merge

if TYPE_CHECKING:
    from noetl_core.dsl.model import Playbook

_PYTHON = re.compile(r"""\bkind["']?\s*:\s*["']?python\b""")


@app.command()
def run(
    what: Annotated[str, typer.Argument(metavar="FILE|PATH[@VERSION]")],
    on: On = None,
    payload: Annotated[str | None, typer.Option(help="JSON, or @file")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="a.b=value, typed as YAML; repeatable", metavar="A.B=VALUE")
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            "--env", help="Inputs of the section env.NAME in noetl.toml, overridden by those given here", metavar="NAME"
        ),
    ] = None,
    idempotency_key: Annotated[str | None, typer.Option(metavar="K")] = None,
    priority: Annotated[
        float | None, typer.Option(help="Priority among executions that wait for a limit; higher first", metavar="N")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Label by which lists find the execution; repeatable", metavar="KEY=VALUE")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds to follow the execution", metavar="S")] = None,
    output_: Output = "text",
    events: Annotated[bool, typer.Option("--events", help="Add the event log")] = False,
    store: Store = None,
    allow: Annotated[list[str] | None, typer.Option(help="Allow a restricted feature: shell (commands)", metavar="shell")] = None,
    quiet: Quiet = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on undefined values in templates, and on errors that no rule matches")
    ] = False,
) -> None:
    """Run a playbook and follow it to its end."""
    _allow(allow or (), on or "local")
    if priority is not None and not PRIORITY.low <= priority <= PRIORITY.high:
        raise Exit(USAGE, f"--priority {priority:g}: a number from {PRIORITY.low:,.0f} to {PRIORITY.high:,.0f}")
    labels = dict(_label(text) for text in label or ())
    file = Path(what) / "playbook.yaml" if Path(what).is_dir() else Path(what)
    source, path, version = None, None, None
    chosen = None
    if env is not None:
        from noetl_cli.environments import environment  # 10 ms: needed only if one is named

        chosen = environment(env, file if file.is_file() else None)
        on, store = on or chosen.on, store or chosen.store
    if file.is_file():
        source = playbook_files.playbook(file)
        if (on or "local") == "local" and _PYTHON.search(source):
            from noetl_core.tools.python.tool import start_ahead  # 5 ms: needed only to run python tasks in this process

            start_ahead()  # 40 ms, in which this process imports and parses
    from noetl_cli.follow import Watch, ended  # 16 ms, with the next: needed only to follow an execution
    from noetl_cli.notices import places

    given = payload_of(payload)
    if chosen is not None:
        given = deep_merge(chosen.payload, given)
    for entry in set_ or ():
        put(given, entry)
    with ExitStack() as stack:
        if source is not None:
            if (on or "local") == "local":
                source = playbook_files.with_libraries(source, file)
            playbook = playbook_files.checked(source, file, quiet=quiet)
            check_sets(set_ or (), playbook)
            if "x-services" in source:
                from noetl_cli.services import ServiceError, services_for  # 23 ms: few playbooks name services

                try:
                    given = deep_merge(stack.enter_context(services_for(file, given)), given)
                except ServiceError as error:
                    raise Exit(USAGE, str(error)) from None
        else:
            path, version = _path(what)
        where = stack.enter_context(closing(backend(on or "local", store)))
        new_store = where.new_store
        if source is not None and where.name == "local":
            from noetl_cli.siblings import register_called  # 50 ms: needed only to run a file

            register_called(where, playbook, file, quiet=quiet or output_ != "text")
        if source is not None and where.name == "local" and playbook.executor.requirements:
            from noetl_cli.packages import install  # 10 ms: few playbooks require packages

            install(playbook.executor.requirements)
        if set_ and path is not None:
            check_sets(set_, playbook_files.check(where.api.playbook(path, version)["source"], Path(path)))
        started = where.api.start(
            playbook=source,
            path=path,
            version=version,
            payload=given,
            idempotency_key=idempotency_key,
            priority=priority,
            strict=strict or None,
            labels=labels or None,
        )
        execution_id = started["execution_id"]
        for warning in started.get("warnings", ()):
            say(f"warning: {warning}")
        if output_ == "text":
            say(new_store)
            say(f"execution {execution_id} on {where.name}")
        known = places(playbook, file) if source is not None else None
        watch = Watch(where, execution_id, quiet=output_ != "text", places=known)
        try:
            where.follow(execution_id, timeout, watch.tick)
        finally:
            watch.close()
        ended(where, execution_id, output_, events, file if source is not None else None)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise Exit(USAGE, f"--label {text}: write KEY=VALUE, such as --label env=prod")
    return key, value


def _allow(what: Sequence[str], on: str) -> None:
    """Let tasks of this process run commands, if the user allows it."""
    for each in what:
        if each != "shell":
            raise Exit(USAGE, f"--allow {each}: there is nothing of that name to allow but shell")
        if on != "local":
            raise Exit(USAGE, "--allow shell is for tasks that run in this process; a stack has the parameter AllowShell")
        os.environ["NOETL_ALLOW_SHELL"] = "1"


@app.command()
def register(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    on: On = None,
    store: Store = None,
    output_: Output = "text",
    quiet: Quiet = False,
) -> None:
    """Put playbooks into the catalog (default: of the local store)."""
    where = backend(on or "local", store)
    registered = []
    for file in files:
        source = playbook_files.playbook(file)
        playbook = playbook_files.checked(source, file, quiet=quiet)
        version = where.api.register(source)
        registered.append(version)
        if output_ == "text":
            print(f"{version['path']} version {version['version']} ({version['digest'][:19]}) on {where.name}")
        for warning in version["warnings"]:
            if " W532 " not in warning or not (quiet or _is_of_file_beside(warning, playbook, file)):
                say(f"warning: {warning}")
    if output_ != "text":
        output.as_data(registered, output_)


def _is_of_file_beside(warning: str, playbook: Playbook, file: Path) -> bool:
    """Return whether a payload was compared with the registered version of a playbook that a file in the same folder has: the
    file counts, and lint has compared the payload with it."""
    from noetl_core.playbooks.called_files import SamePath, beside, called  # 60 ms: needed only for such a warning

    try:
        return any(f" W532 {path} " in warning and beside(path, file) is not None for path in called(playbook))
    except SamePath:
        return False


def _path(what: str) -> tuple[str, Version]:
    if what.endswith((".yaml", ".yml")):
        raise Exit(USAGE, f"there is no file {what}")
    try:
        return split_version(what)
    except BadVersion as error:
        raise Exit(USAGE, f"{what}: {error}") from None
