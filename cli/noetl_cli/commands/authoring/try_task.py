"""`noetl try`: one task on the recorded names of an execution, called again without recording anything."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import Id, On, Output, Store, app
from noetl_cli.backends.backend import Backend
from noetl_cli.backends.opening import execution
from noetl_cli.display import output
from noetl_cli.errors import FAILED, USAGE, Exit, say
from noetl_cli.inputs import files
from noetl_cli.inputs.payload import put

if TYPE_CHECKING:
    from noetl_core.dsl.model import Playbook, Task
    from noetl_core.engine.redrive.plan import From
    from noetl_core.runtime.trial import Trial

NAMESPACES = ("args", "ctx", "iter", "workload")
"""Namespaces of bare names: `--set ctx.a=1` counts for a template that reads `a`, too."""

CODE = frozenset({"python"})
"""Kinds whose program reads namespaces as a whole."""


@app.command("try")
def try_(
    id: Id,
    place: Annotated[str, typer.Argument(metavar="STEP[/TASK][@N]")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A name that the task reads; repeatable", metavar="ctx.A=VALUE")
    ] = None,
    playbook: Annotated[
        Path | None,
        typer.Option(help="Take the task from this file (default: the file here with the playbook's path)", metavar="FILE"),
    ] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Only show the inputs: the tool is not called")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on undefined names in text")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Call one task again with the names it saw in an execution, and judge the outcome by its policy. The tool is called for
    real, with this machine's credentials; nothing is recorded. Exit code 1 if the task fails."""
    from noetl_cli.display.download import resolved  # 200 ms, with the next three: needed only to try a task
    from noetl_core.engine.redrive.plan import BadRedrive, From
    from noetl_core.expr import TemplateError
    from noetl_core.runtime.trial import NoTrial, paths_read, try_task

    try:
        where_ = From.parse(place)
    except BadRedrive:
        raise Exit(USAGE, f"{place!r}: write STEP, STEP/TASK, or with the iteration of a loop STEP/TASK@3") from None
    with execution(id, on, store) as (where, id):
        model = _playbook(where, id, playbook)
        task = _task(model, where_)
        try:
            paths = paths_read(task)
            names = _names(where, id, where_, task, paths)
            for entry in set_ or ():
                _put(names, entry)
                _check_read(entry, task, paths)
            tried = try_task(
                model,
                task,
                names,
                step=where_.step,
                path=where_.path,
                strict=strict or bool(model.executor.strict),
                resolve=lambda reference: resolved(where.api, id, reference),
                call=not dry,
                log=lambda line, stream="stdout", /: print(line, file=sys.stderr),
            )
        except (TemplateError, NoTrial) as error:
            raise Exit(FAILED, f"{where_.step}/{task.name}: {error}") from None
    _show(tried, output_)
    if tried.outcome is not None and tried.outcome.status == "error":
        raise Exit(FAILED)


def _playbook(where: Backend, id: str, file: Path | None) -> Playbook:
    """Return the playbook of `file`, else of the file here that has the execution's path, else the registered version."""
    from noetl_cli.display.sources import Sources  # 8 ms: needed only to try a task

    if file is None:
        named = where.api.execution(id)["playbook"]
        found = Path(Sources().name(named["path"]))
        if not found.is_file():
            if not named["version"]:
                raise Exit(USAGE, f"execution {id} ran a playbook that is not registered: name its file with --playbook")
            source = where.api.playbook(named["path"], named["version"])["source"]
            return files.check(source, Path(named["path"]))
        file = found
    file = file / "playbook.yaml" if file.is_dir() else file
    return files.check(files.playbook(file), file)


def _task(playbook: Playbook, place: From) -> Task:
    """Return the named task, or the only one of the step. Raises `Exit(2)`."""
    from noetl_core.dsl.reading.diagnostics import suggest  # 190 ms, as above

    step = playbook.by_name.get(place.step)
    if step is None:
        hint = suggest(place.step, playbook.by_name)
        raise Exit(USAGE, f"playbook {playbook.path} has no step {place.step!r}" + (f" ({hint})" if hint else ""))
    names = [task.name for task in step.tasks]
    if place.task is None and len(names) != 1:
        raise Exit(USAGE, f"step {step.name} has {len(names)} tasks: name one, {', '.join(f'{step.name}/{n}' for n in names)}")
    if place.task is not None and place.task not in names:
        hint = suggest(place.task, names)
        raise Exit(USAGE, f"step {step.name} has no task {place.task!r}" + (f" ({hint})" if hint else ""))
    return step.tasks[0 if place.task is None else names.index(place.task)]


def _names(where: Backend, id: str, place: From, task: Task, paths: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Return the recorded values of the names that the task reads; undefined ones are left out."""
    wanted = [path for path in paths if path[0] != "keychain"]
    names: dict[str, Any] = {}
    if not wanted:
        return names
    step = where.api.execution(id)["steps"].get(place.step)
    ran = step is not None and bool(step.get("runs"))
    iteration = ".".join(map(str, place.path)) or None
    templates = ["{{ " + ".".join(path) + " }}" for path in wanted]
    found = where.api.render(id, templates, place.step, task=task.name if ran else None, iteration=iteration if ran else None)
    undefined = {each["name"] for each in found.get("undefined", ())}
    for path, value in zip(wanted, found["value"], strict=True):
        if value is not None or ".".join(path) not in undefined:
            inner = names
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = value
    return names


def _check_read(entry: str, task: Task, paths: Sequence[tuple[str, ...]]) -> None:
    """Refuse `ctx.a=value` if the task does not read it. Raises `Exit(2)`."""
    from noetl_core.dsl.reading.diagnostics import suggest  # 190 ms, as above

    path = tuple(entry.partition("=")[0].split("."))
    bare = path[1:] if path[0] in NAMESPACES else path
    read = [*paths, *((name,) for name in ("args", "ctx", "workload") if task.kind in CODE), ("_attempt",)]
    if any(each[: len(one)] == one[: len(each)] for each in read for one in (path, bare)):
        return
    known = [".".join(each) for each in paths]
    hint = suggest(".".join(path), known) or (f"it reads {', '.join(known)}" if known else "it reads no names")
    raise Exit(USAGE, f"--set {entry!r}: task {task.name} does not read {'.'.join(path)} ({hint})")


def _put(names: dict[str, Any], entry: str) -> None:
    """Set `ctx.a=value` in the names."""
    changed: dict[str, Any] = {}
    path = entry.partition("=")[0]
    if "=" not in entry or not all(path.split(".")) or path in NAMESPACES:
        raise Exit(USAGE, f"--set {entry!r}: expected ctx.a=value, with a name in {', '.join(NAMESPACES)} or of a task or step")
    put(changed, f"workload.{entry}")
    _merge(names, changed)
    for namespace in NAMESPACES:
        for name, value in (changed.get(namespace) or {}).items():
            if name in names:
                names[name] = value


def _merge(names: dict[str, Any], changed: Mapping[str, Any]) -> None:
    for key, value in changed.items():
        inner = names.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            _merge(inner, value)
        else:
            names[key] = value


def _show(tried: Trial, how: str) -> None:
    outcome, directive = tried.outcome, tried.directive
    found: dict[str, Any] = {"inputs": dict(tried.inputs), "undefined": list(tried.undefined)}
    if outcome is not None and directive is not None:
        found |= {"outcome": outcome.as_dict(), "directive": directive.as_dict(ruled=True)}
        writes = {"set_ctx": directive.set_ctx, "set_iter": directive.set_iter}
        found |= {name: dict(written) for name, written in writes.items() if written}
    if how != "text":
        output.as_data(found, how)
        return
    for text in tried.undefined:
        say(text)
    _section("inputs", found["inputs"])
    if outcome is None or directive is None:
        print("the tool was not called")
        return
    if outcome.error is not None:
        print(f"error {outcome.error.kind}: {outcome.error.message}")
        output.error_details(outcome.error.details)
    else:
        _section("result", outcome.result)
    rule = {"None": "no rule matched", "else": "by its else"}.get(str(directive.matched), f"by rule {directive.matched}")
    then = f" to {directive.to}" if directive.to else f" in {directive.delay:g} s" if directive.do == "retry" else ""
    print(f"then: {directive.do}{then}, {rule}")
    for name in ("set_ctx", "set_iter"):
        if name in found:
            _section(name, found[name])


def _section(title: str, value: Any) -> None:
    print(output.styled(title, "bold"))
    output.result(value)
