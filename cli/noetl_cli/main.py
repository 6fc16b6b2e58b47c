"""The `noetl` command (CONTRACT "Command line"). Commands import what they need when they run: a start costs little."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from noetl_cli import output
from noetl_cli.backends import STOPPED, TERMINAL, Backend, backend
from noetl_cli.errors import COMPLETED, FAILED, INTERRUPTED, TIMEOUT, UNREACHABLE, USAGE, Exit

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Run NoETL playbooks.")

On = Annotated[str | None, typer.Option("--on", click_type=click.Choice(["local", "stack"]))]
Store = Annotated[str | None, typer.Option(help="Local store: a database file, or memory (default .noetl/runs.db)")]
Output = Annotated[str, typer.Option("--output", click_type=click.Choice(["human", "json", "jsonl"]))]
Id = Annotated[str, typer.Argument(metavar="ID")]


def main() -> None:
    """Entry point: exit codes are 0, 1, 2, 3, 124 (130 for Ctrl-C)."""
    from noetl_core.dsl.diagnostics import InvalidPlaybook

    try:
        code = app(standalone_mode=False)
    except Exit as end:
        _say(end.message)
        code = end.code
    except InvalidPlaybook as invalid:
        _say(str(invalid))
        code = USAGE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except typer.Exit as end:
        code = end.exit_code
    except BrokenPipeError:  # whoever read our output has seen enough
        os._exit(COMPLETED)
    except Exception as error:
        code = _other(error)
    if code in (INTERRUPTED, TIMEOUT):
        sys.stdout.flush()
        os._exit(code)  # tasks may still run in threads that an orderly exit would wait for; the log does not need them
    sys.exit(code if isinstance(code, int) else COMPLETED)


def _other(error: Exception) -> int:
    """Usage errors of the command line, a service that fails, or a bug (which shows itself)."""
    from noetl_core.ports import PortError

    if isinstance(error, click.ClickException):
        error.show()
        return USAGE
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, PortError):
        _say(f"{type(error).__name__}: {error}")
        return UNREACHABLE
    raise error


def _say(message: str) -> None:
    if message:
        print(message, file=sys.stderr)


# --- playbooks ------------------------------------------------------------------------------------------------------------


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    format: Annotated[str, typer.Option("--format", click_type=click.Choice(["text", "json", "sarif"]))] = "text",
) -> None:
    """Parse, validate and lint playbooks; exit code 2 when one has errors."""
    from noetl_core.dsl.diagnostics import to_json, to_sarif, to_text
    from noetl_core.dsl.parse import check

    found = []
    broken = False
    for file in files:
        playbook, diagnostics = check(_read(file), str(file))
        found += diagnostics
        broken = broken or playbook is None
    render = {"text": to_text, "json": to_json, "sarif": to_sarif}[format]
    text = render(found)
    if text:
        print(text)
    if format == "text":
        errors = sum(1 for d in found if d.severity == "error")
        _say(f"{len(files)} file(s), {errors} error(s), {len(found) - errors} warning(s) and notes")
    if broken:
        raise Exit(USAGE)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Exit(USAGE, f"{file}: {error}") from None


@app.command()
def schema() -> None:
    """Print the JSON Schema of a playbook."""
    from noetl_core.dsl.schema import playbook_schema

    output.as_json(playbook_schema())


@app.command()
def register(files: Annotated[list[Path], typer.Argument(metavar="FILE...")], on: On = None, store: Store = None) -> None:
    """Put playbooks into the catalog (default: of the stack)."""
    where = backend(on or "stack", store)
    for file in files:
        source = _read(file)
        _checked(source, file)
        version = where.post("playbooks", source)
        print(f"{version['path']} version {version['version']} ({version['digest'][:19]})")


def _checked(source: str, file: Path) -> None:
    from noetl_core.dsl.parse import parse_playbook

    parse_playbook(source, str(file))


@app.command()
def playbooks(prefix: str = "", on: On = None, store: Store = None, output_: Output = "human") -> None:
    """List the catalog (default: of the stack)."""
    _list(backend(on or "stack", store).get("playbooks", prefix=prefix or None)["playbooks"], output_)


def _list(rows: list[dict[str, Any]], how: str) -> None:
    if how == "json":
        output.as_json(rows)
    elif how == "jsonl":
        output.as_lines(rows)
    elif rows:
        output.table(rows)
    else:
        _say("nothing there")


# --- running --------------------------------------------------------------------------------------------------------------


@app.command()
def run(
    what: Annotated[str, typer.Argument(metavar="FILE|PATH[@VERSION]")],
    on: On = None,
    payload: Annotated[str | None, typer.Option(help="JSON, or @file")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="a.b=value, typed as YAML; repeatable", metavar="A.B=VALUE")
    ] = None,
    idempotency_key: Annotated[str | None, typer.Option(metavar="K")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds to follow", metavar="S")] = None,
    output_: Output = "human",
    events: Annotated[bool, typer.Option("--events", help="Add the event log")] = False,
    store: Store = None,
) -> None:
    """Run a playbook and follow it to its end."""
    from contextlib import ExitStack

    from noetl_cli.follow import Watch
    from noetl_cli.payload import merged, payload_of

    given = payload_of(payload, set_ or [])
    file = Path(what) / "playbook.yaml" if Path(what).is_dir() else Path(what)
    source, path, version = None, None, None
    with ExitStack() as stack:
        if file.is_file():
            source = _read(file)
            _checked(source, file)
            if "x-services" in source:
                from noetl_cli.services import ServiceError, services_for

                try:
                    given = merged(stack.enter_context(services_for(file, given)), given)
                except ServiceError as error:
                    raise Exit(USAGE, str(error)) from None
        else:
            path, version = _path(what)
        where = stack.enter_context(_open(backend(on or "local", store)))
        started = where.start(source=source, path=path, version=version, payload=given, key=idempotency_key)
        execution_id = started["execution_id"]
        if output_ == "human":
            _say(f"execution {execution_id} on {where.name}")
        watch = Watch(where, execution_id, quiet=output_ != "human")
        try:
            where.follow(execution_id, timeout, watch.tick)
        finally:
            watch.close()
        _ended(where, execution_id, output_, events)


def _path(what: str) -> tuple[str, int | None]:
    path, at, version = what.partition("@")
    if what.endswith((".yaml", ".yml")):
        raise Exit(USAGE, f"there is no file {what}")
    if at and not version.isdecimal():
        raise Exit(USAGE, f"{what}: a version is a number")
    return path, int(version) if at else None


class _open:
    """Closes a backend at the end of a block."""

    def __init__(self, where: Backend) -> None:
        self._where = where

    def __enter__(self) -> Backend:
        return self._where

    def __exit__(self, *_: object) -> None:
        self._where.close()


def _ended(where: Backend, execution_id: str, how: str, events: bool) -> None:
    """Print the summary; the exit code tells how it ended."""
    summary = where.get(f"executions/{execution_id}")
    if events:
        summary["event_log"] = _all_events(where, execution_id)
    if how != "human":
        output.as_json(summary)
    else:
        output.summary(summary, where.name)
        for event in summary.get("event_log", ()):
            print(_event_line(event))
    if summary["status"] != "completed":
        raise Exit(FAILED)


@app.command()
def resume(id: Id, on: On = None, store: Store = None, output_: Output = "human") -> None:
    """Go on with a paused execution, or with one that this machine left unfinished."""
    from noetl_cli.follow import Watch

    with _open(backend(on, store, id)) as where:
        status = where.get(f"executions/{id}/state")["status"]
        if status in TERMINAL:
            raise Exit(FAILED, f"execution {id} has already ended ({status})")
        if status in ("paused", "stuck") or where.name == "stack":
            where.post(f"executions/{id}/resume", {})
        watch = Watch(where, id, quiet=output_ != "human")
        try:
            where.follow(id, None, watch.tick)
        finally:
            watch.close()
        _ended(where, id, output_, False)


@app.command()
def cancel(id: Id, reason: str = "", on: On = None, store: Store = None) -> None:
    """Cancel an execution."""
    with _open(backend(on, store, id)) as where:
        answer = where.post(f"executions/{id}/cancel", {"reason": reason} if reason else {})
        print(f"{id} {answer['status']}")


@app.command()
def pause(id: Id, on: On = None, store: Store = None) -> None:
    """Pause an execution: running pipelines stop at their next task."""
    with _open(backend(on, store, id)) as where:
        print(f"{id} {where.post(f'executions/{id}/pause', {})['status']}")


@app.command()
def signal(
    id: Id,
    name: str,
    data: Annotated[str, typer.Option(help="JSON, or @file", metavar="JSON|@file")] = "{}",
    on: On = None,
    store: Store = None,
) -> None:
    """Send a named signal: what `kind: callback` with `signal: NAME` waits for."""
    from noetl_cli.payload import json_of

    with _open(backend(on, store, id)) as where:
        answer = where.post("events", {"execution_id": id, "name": name, "data": json_of(data, "--data")})
        print(f"{id} {answer['status']}")


# --- looking --------------------------------------------------------------------------------------------------------------


@app.command("ls")
def list_executions(
    status: str | None = None,
    path: str | None = None,
    limit: int = 50,
    on: On = None,
    store: Store = None,
    output_: Output = "human",
) -> None:
    """List executions, newest first (default: of the local store)."""
    with _open(backend(on or "local", store)) as where:
        found = where.get("executions", status=status, path=path, limit=limit)["executions"]
    if output_ == "human":
        found = [
            {
                "execution": e["execution_id"],
                "status": e["status"],
                "playbook": f"{e['playbook']['path']}@{e['playbook']['version']}",
                "started": e["started_at"],
                "ms": e["duration_ms"],
            }
            for e in found
        ]
    _list(found, output_)


@app.command()
def show(id: Id, on: On = None, store: Store = None, output_: Output = "human") -> None:
    """Show an execution: status, steps, result."""
    with _open(backend(on, store, id)) as where:
        summary = where.get(f"executions/{id}")
        if output_ != "human":
            output.as_json(summary)
            return
        output.steps(summary)
        output.summary(summary, where.name)


@app.command()
def events(
    id: Id,
    name: str | None = None,
    after: str | None = None,
    on: On = None,
    store: Store = None,
    output_: Output = "human",
) -> None:
    """Show an execution's history, in causal order."""
    with _open(backend(on, store, id)) as where:
        found = _all_events(where, id, name=name, after=after)
    if output_ == "json":
        output.as_json(found)
    elif output_ == "jsonl":
        output.as_lines(found)
    else:
        for event in found:
            print(_event_line(event))


def _all_events(where: Backend, id: str, name: str | None = None, after: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = where.get(f"executions/{id}/events", name=name, after=after, limit=1000)
        found += page["events"]
        after = page["cursor"]
        if after is None or len(page["events"]) < 1000:
            return found


def _event_line(e: dict[str, Any]) -> str:
    import json

    what = "".join(f" {e[k]}" for k in ("step", "task") if e.get(k))
    where = f" {e['iteration']}" if e.get("iteration") is not None else ""
    data = json.dumps(e["data"], ensure_ascii=False, default=str)
    return (
        f"{e['timestamp'][11:26]} {e['source'][:1]} {e['name']:<26}{what}{where} {data if len(data) < 160 else data[:159] + '…'}"
    )


@app.command()
def watch(id: Id, on: On = None, store: Store = None, timeout: Annotated[float | None, typer.Option(metavar="S")] = None) -> None:
    """Follow an execution that something else carries out, to its end."""
    import time

    from noetl_cli.follow import Watch, polled

    with _open(backend(on, store, id)) as where:
        view = Watch(where, id, polled(where, id))
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while where.get(f"executions/{id}/state")["status"] not in STOPPED:
                if until is not None and time.monotonic() > until:
                    raise Exit(TIMEOUT, f"execution {id} did not end within {timeout:g} s")
                view.tick()
                time.sleep(0.3)
        finally:
            view.close()
        _ended(where, id, "human", False)


# --- the stack ------------------------------------------------------------------------------------------------------------


@app.command()
def up(
    endpoint: Annotated[
        str | None, typer.Option(help="Deploy to this endpoint instead of an embedded stack", metavar="URL")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port of the embedded stack (default 4566, or a free one)")] = None,
) -> None:
    """Start the embedded AWS stack and deploy template.yaml to it."""
    import time

    from noetl_infra import stack
    from noetl_infra.deploy import DeployFailed

    began = time.monotonic()
    try:
        running = stack.up(endpoint=endpoint, port=port)
    except stack.StackDown as error:
        raise Exit(UNREACHABLE, str(error)) from None
    except DeployFailed as error:
        raise Exit(FAILED, f"deploying failed: {error}") from None
    print(f"the stack is up at {running.endpoint} ({time.monotonic() - began:.1f} s)")
    print(f"API   {running.api_url}/api")
    print(f"inbox s3://{running.outputs['InboxBucketName']}/triggers/<playbook path>/...")


@app.command()
def down() -> None:
    """Stop the embedded stack."""
    from noetl_infra import stack

    print("stopped" if stack.down() else "no stack was up here")


@app.command()
def status(output_: Output = "human") -> None:
    """What is running where. Exit code 3 when the stack does not answer."""
    from noetl_cli.backends import StackBackend
    from noetl_infra import stack

    known = stack.current()
    if known is None or not known.alive:
        raise Exit(UNREACHABLE, "no stack is up here" if known is None else f"the stack at {known.endpoint} does not answer")
    api = StackBackend(known.api_url)
    facts = {
        "endpoint": known.endpoint,
        "pid": known.pid,
        "api": known.api_url,
        **api.get("health"),
        "queues": api.get("queue")["pools"],
    }
    if output_ == "human":
        output.result({k: v for k, v in facts.items() if v is not None})
    else:
        output.as_json(facts)


if __name__ == "__main__":
    main()
