"""`noetl triggers`: manages the triggers that start playbooks automatically."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import On, Output, Store, app
from noetl_cli.backends.opening import backend
from noetl_cli.display import output
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_cli.inputs.payload import json_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noetl_cli.backends.backend import Backend
    from noetl_core.api.shapes.triggers import Firing, Trigger, TriggerDetails

triggers = typer.Typer(no_args_is_help=True, add_completion=False, help="Manage triggers: list, enable, disable, fire, retry.")
app.add_typer(triggers, name="triggers")

PATTERN_SHOWN = 80
"""Characters of an event pattern in a list."""

Path = Annotated[str, typer.Argument(metavar="PATH", help="Path of the playbook")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the trigger")]
RefusedId = Annotated[str, typer.Argument(metavar="ID", help="Id of a refused start, listed by `noetl triggers refused`")]


@triggers.command("ls")
def list_(
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="Path of the playbook (default: all)")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this source, such as schedule")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """List triggers with their next and last occurrences. Also called list."""
    with closing(backend(on or "local", store)) as where:
        found = where.api.triggers(path, kind)["triggers"]
        output.rows([_row(t) for t in found] if output_ == "text" else [{**t} for t in found], output_)
        for trigger in found if output_ == "text" else ():
            if "unreached" in trigger:
                say(f"{trigger['path']} {trigger['name']}: {trigger['unreached']}")


triggers.command("list", hidden=True)(list_)


@triggers.command()
def show(path: Path, name: Name, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Show a trigger, its next occurrences, and the outcome of the last ones."""
    with closing(backend(on or "local", store)) as where:
        found = where.api.trigger(path, name)
        if output_ == "text":
            _show(found)
        else:
            output.as_data(found, output_)


@triggers.command()
def enable(path: Path, name: Name, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Switch a trigger on. Occurrences missed while it was off are not caught up."""
    with closing(backend(on or "local", store)) as where:
        found = where.api.switch_trigger(path, name, on=True)
        then = (
            ", but its playbook is deleted"
            if "deleted_at" in found
            else f", next at {found['next_at']}"
            if found.get("next_at")
            else f", but {found['unreached']}"
            if "unreached" in found
            else ""
        )
        output.done(f"{path} {name} is on{then}", found, output_)


@triggers.command()
def disable(path: Path, name: Name, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Switch a trigger off. Executions it has started continue."""
    with closing(backend(on or "local", store)) as where:
        output.done(f"{path} {name} is off", where.api.switch_trigger(path, name, on=False), output_)


@triggers.command()
def fire(
    path: Path,
    name: Name,
    at: Annotated[str | None, typer.Option(help="Occurrence to fire, such as 2026-11-22T02:00Z (default: now)")] = None,
    event: Annotated[
        str | None, typer.Option(help="The event for an event, queue or webhook trigger", metavar="JSON|@FILE")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key fires the trigger only once", metavar="K")
    ] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Start a trigger's execution now, whether it is on or off, and whatever is running."""
    payload = None if event is None else json_of(event, "--event")
    if event is not None and not isinstance(payload, dict):
        raise Exit(USAGE, f"--event is a JSON {type(payload).__name__}; an object is expected")
    with closing(backend(on or "local", store)) as where:
        _fired(where, where.api.fire_trigger(path, name, at=at, event=payload, idempotency_key=key), output_)


@triggers.command()
def refused(
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="Path of the playbook (default: all)")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """List deliveries that triggers could not start, newest first."""
    with closing(backend(on or "local", store)) as where:
        found = where.api.refused(path)["refused"]
        if output_ == "text":
            columns = ("id", "path", "trigger", "occurrence", "reason")
            output.rows([{c: {**one}[c] for c in columns} for one in found], output_)
        else:
            output.rows([{**one} for one in found], output_)


@triggers.command()
def retry(id: RefusedId, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Retry a start that was refused."""
    with closing(backend(on or "local", store)) as where:
        _fired(where, where.api.fire_refused(id), output_)


@triggers.command()
def forget(id: RefusedId, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Delete a refused start."""
    with closing(backend(on or "local", store)) as where:
        output.done(f"{id} deleted", where.api.forget_refused(id), output_)


def _fired(where: Backend, firing: Firing, how: str) -> None:
    """Report the outcome; a local execution is run here, to its end."""
    execution_id = firing.get("execution_id")
    if execution_id is None:
        on = output.on_option(where.name)
        kept = f"\nonce the cause is mended: noetl triggers retry {firing['refused']}{on}" if "refused" in firing else ""
        raise Exit(FAILED, f"{firing['id']} is {firing['result']}: {firing.get('reason', '')}{kept}")
    if where.name == "local":
        from noetl_cli.display.follow import Watch, ended  # 17 ms: needed only to follow an execution

        watch = Watch(where, execution_id, quiet=how != "text")
        try:
            where.follow(execution_id, None, watch.tick)
        finally:
            watch.close()
        ended(where, execution_id, how, False)
    elif how == "text":
        print(execution_id)
        say(f"started {firing['id']}; follow it: noetl watch {execution_id}")
    else:
        output.as_data(firing, how)


def _row(trigger: Trigger) -> dict[str, Any]:
    last = trigger.get("last")
    return {
        "path": trigger["path"],
        "name": trigger["name"],
        "when": _when(trigger),
        "on": _state(trigger),
        "next": trigger.get("next_at") or "",
        "last": f"{last['scheduled_at']} {last['execution_id']}" if last else "",
    }


def _state(trigger: Trigger) -> str:
    if "deleted_at" in trigger:
        return "no: its playbook is deleted"
    if trigger["enabled"]:
        waiting = trigger.get("waiting")
        return f"yes, {len(waiting)} waiting" if waiting else "yes, but nothing reaches it" if "unreached" in trigger else "yes"
    return f"no: {trigger['stopped']}" if "stopped" in trigger else "no"


def _when(trigger: Trigger) -> str:
    """Return the source of a trigger in one line."""
    source = trigger["source"]
    if trigger["kind"] != "schedule":
        return f"{trigger['kind']} {_outside(trigger['kind'], source)}".strip()
    if "every_s" in source:
        return f"every {_duration(source['every_s'])}"
    if "cron" in source:
        zone = source.get("timezone", "UTC")
        return f"{source['cron']} {zone}"
    return ", ".join(f"{key}: {value}" for key, value in source.items())


def _outside(kind: str, source: Mapping[str, Any]) -> str:
    """Return the words of a source that brings deliveries."""
    match kind:
        case "event":
            return json.dumps(source["pattern"], ensure_ascii=False)[:PATTERN_SHOWN]
        case "queue":
            return str(source["queue"])
        case "webhook":
            return f"{source['form']} {source['credential']}"
        case _:
            return f"{source.get('bucket', '')} {source.get('prefix', '')}*{source.get('suffix', '')}".strip()


def _duration(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _show(trigger: TriggerDetails) -> None:
    source = trigger["source"]
    print(f"{output.styled(trigger['path'], 'bold')} {trigger['name']}: {_when(trigger)}, version {trigger['version']}")
    print(f"on: {_state(trigger)}")
    if "unreached" in trigger:
        print(trigger["unreached"])
    if "starts" in trigger:
        print(f"starts: {trigger['path']}@{trigger['starts']}")
    if trigger["kind"] == "webhook":
        print(f"takes: POST /api/hooks/{trigger['path']}/{trigger['name']}")
    for key in ("overlap", "catch_up", "jitter_s", "match", "respond"):
        if key in source:
            print(f"{key}: {source[key] if isinstance(source[key], str) else json.dumps(source[key], ensure_ascii=False)}")
    if trigger["payload"]:
        print(f"payload: {json.dumps(trigger['payload'], ensure_ascii=False)}")
    if trigger["upcoming"]:
        print(f"next: {', '.join(trigger['upcoming'])}")
    if trigger["firings"]:
        refused = ("refused",) if any("refused" in firing for firing in trigger["firings"]) else ()
        columns = ("id", "result", "execution_id", *refused, "reason")
        output.table([{c: {**f}.get(c, "") for c in columns} for f in trigger["firings"]])
