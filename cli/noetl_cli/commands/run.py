"""Commands that run playbooks: register, run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import On, Output, Quiet, Store, app
from noetl_cli.backends.opening import backend
from noetl_cli.display import output
from noetl_cli.errors import USAGE, Exit, say
from noetl_cli.inputs import files as playbook_files
from noetl_cli.inputs.payload import check_sets, payload_of, put
from noetl_cli.options import takes
from noetl_core.dsl.numbers import PRIORITY
from noetl_core.dsl.versions import BadVersion, Version, split_version
from noetl_core.values.frozen import frozen
from noetl_core.values.mappings import deep_merge

if TYPE_CHECKING:
    from noetl_cli.backends.backend import Backend
    from noetl_core.dsl.model import Playbook

_PYTHON = re.compile(r"""\bkind["']?\s*:\s*["']?python\b""")


@frozen
class RunOptions:
    """The argument and the options of `noetl run`."""

    what: Annotated[str, typer.Argument(metavar="FILE|PATH[@VERSION]")]
    on: On = None
    payload: Annotated[str | None, typer.Option(help="JSON, or @file")] = None
    set_: Annotated[list[str] | None, typer.Option("--set", help="a.b=value, typed as YAML; repeatable", metavar="A.B=VALUE")] = (
        None
    )
    env: Annotated[
        str | None,
        typer.Option(
            "--env", help="Inputs of the section env.NAME in noetl.toml, overridden by those given here", metavar="NAME"
        ),
    ] = None
    idempotency_key: Annotated[str | None, typer.Option(metavar="K")] = None
    priority: Annotated[
        float | None, typer.Option(help="Priority among executions that wait for a limit; higher first", metavar="N")
    ] = None
    label: Annotated[
        list[str] | None, typer.Option(help="Label by which lists find the execution; repeatable", metavar="KEY=VALUE")
    ] = None
    timeout: Annotated[float | None, typer.Option(help="Seconds to follow the execution", metavar="S")] = None
    output_: Output = "text"
    events: Annotated[bool, typer.Option("--events", help="Add the event log")] = False
    store: Store = None
    allow: Annotated[list[str] | None, typer.Option(help="Allow a restricted feature: shell (commands)", metavar="shell")] = None
    quiet: Quiet = False
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on undefined values in templates, and on errors that no rule matches")
    ] = False


@frozen
class _File:
    """A playbook that is run from its file."""

    file: Path
    source: str
    playbook: Playbook


@app.command()
@takes(RunOptions)
def run(options: RunOptions) -> None:
    """Run a playbook and follow it to its end."""
    start_and_follow(options, lambda _: None)


def start_and_follow(options: RunOptions, begun: Callable[[str], None]) -> None:
    """Run a playbook and follow it to its end; `begun` gets the id of the execution. Raises `Exit` if it does not complete."""
    labels = _checked(options)
    file = _file(options.what)
    on, store, inputs = _environment(options, file)
    text = None if file is None else _text(file, on)
    payload = _payload(options, inputs)
    with ExitStack() as stack:
        read, path, version = None, None, None
        if file is not None and text is not None:
            read = _read(file, text, options, on)
            payload = deep_merge(_start_services(read, payload, stack), payload)
        else:
            path, version = _path(options.what)
        where = stack.enter_context(closing(backend(on, store)))
        new_store = where.new_store
        if read is not None and where.name == "local":
            _prepare_store(where, read, options)
        if options.set_ and path is not None:
            check_sets(options.set_, playbook_files.check(where.api.playbook(path, version)["source"], Path(path)))
        started = where.api.start(
            playbook=None if read is None else read.source,
            path=path,
            version=version,
            payload=payload,
            idempotency_key=options.idempotency_key,
            priority=options.priority,
            strict=options.strict or None,
            labels=labels or None,
        )
        begun(started["execution_id"])
        for warning in started.get("warnings", ()):
            say(f"warning: {warning}")
        if options.output_ == "text":
            say(new_store)
            say(f"execution {started['execution_id']} on {where.name}")
        _follow(where, started["execution_id"], read, options)


def _checked(options: RunOptions) -> dict[str, str]:
    """Apply the options that allow something, and return the labels. Raises `Exit(2)`."""
    _allow(options.allow or (), options.on or "local")
    priority = options.priority
    if priority is not None and not PRIORITY.low <= priority <= PRIORITY.high:
        raise Exit(USAGE, f"--priority {priority:g}: write a number from {PRIORITY.low:,.0f} to {PRIORITY.high:,.0f}")
    return dict(_label(text) for text in options.label or ())


def _file(what: str) -> Path | None:
    """Return the file that is meant, in a folder its `playbook.yaml`; None if a playbook of the catalog is."""
    file = Path(what) / "playbook.yaml" if Path(what).is_dir() else Path(what)
    return file if file.is_file() else None


def _environment(options: RunOptions, file: Path | None) -> tuple[str, str | None, Mapping[str, Any]]:
    """Return `--on` and `--store`, by default those of `--env`, and the inputs of that. Raises `Exit(2)`."""
    if options.env is None:
        return options.on or "local", options.store, {}
    from noetl_cli.inputs.environments import environment  # 10 ms: needed only if one is named

    chosen = environment(options.env, file)
    return options.on or chosen.on or "local", options.store or chosen.store, chosen.payload


def _payload(options: RunOptions, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with those of `--payload` over them, and those of `--set` over both. Raises `Exit(2)`."""
    payload = deep_merge(inputs, payload_of(options.payload))
    for entry in options.set_ or ():
        put(payload, entry)
    return payload


def _text(file: Path, on: str) -> str:
    """Return the text of a file. Python tasks of this process are prepared for while it is parsed."""
    text = playbook_files.playbook(file)
    if on == "local" and _PYTHON.search(text):
        from noetl_core.tools.python.tool import start_ahead  # 5 ms: needed only to run python tasks in this process

        start_ahead()  # 40 ms, in which this process imports and parses
    return text


def _read(file: Path, text: str, options: RunOptions, on: str) -> _File:
    """Return the playbook of a file, checked, and with the shared tasks that it uses. Raises `Exit(2)`, `InvalidPlaybook`."""
    source = playbook_files.with_libraries(text, file) if on == "local" else text
    playbook = playbook_files.checked(source, file, quiet=options.quiet)
    check_sets(options.set_ or (), playbook)
    return _File(file, source, playbook)


def _start_services(read: _File, payload: Mapping[str, Any], stack: ExitStack) -> Mapping[str, Any]:
    """Start the services that a playbook names, for as long as `stack` is open, and return their addresses as inputs."""
    if "x-services" not in read.source:
        return {}
    from noetl_cli.inputs.services import ServiceError, services_for  # 23 ms: few playbooks name services

    try:
        return stack.enter_context(services_for(read.file, payload))
    except ServiceError as error:
        raise Exit(USAGE, str(error)) from None


def _prepare_store(where: Backend, read: _File, options: RunOptions) -> None:
    """Register the playbooks that a playbook calls from files beside it, and install the packages that it requires."""
    from noetl_cli.backends.called_playbooks import register_called  # 50 ms: needed only to run a file

    register_called(where, read.playbook, read.file, quiet=options.quiet or options.output_ != "text")
    if read.playbook.executor.requirements:
        from noetl_cli.inputs.packages import install  # 10 ms: few playbooks require packages

        install(read.playbook.executor.requirements)


def _follow(where: Backend, execution_id: str, read: _File | None, options: RunOptions) -> None:
    """Follow an execution to its end, and print it."""
    from noetl_cli.display.follow import Watch, ended  # 16 ms, with the next: needed only to follow an execution
    from noetl_cli.display.notices import places

    known = None if read is None else places(read.playbook, read.file)
    watch = Watch(where, execution_id, quiet=options.output_ != "text", places=known)
    try:
        where.follow(execution_id, options.timeout, watch.tick)
    finally:
        watch.close()
    ended(where, execution_id, options.output_, options.events, None if read is None else read.file)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise Exit(USAGE, f"--label {text}: write KEY=VALUE, for example --label env=prod")
    return key, value


def _allow(what: Sequence[str], on: str) -> None:
    """Let tasks of this process run commands, if the user allows it."""
    for each in what:
        if each != "shell":
            raise Exit(USAGE, f"--allow {each}: only shell can be allowed")
        if on != "local":
            raise Exit(USAGE, "--allow shell is for tasks that run in this process; for a stack, set its parameter AllowShell")
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
