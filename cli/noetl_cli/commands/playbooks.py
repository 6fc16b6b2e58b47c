"""`noetl playbooks`: the catalog, and a path's aliases, tags and deletion."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noetl_cli.app import On, Output, Store, app
from noetl_cli.backends.opening import backend
from noetl_cli.display import output
from noetl_cli.errors import USAGE, Exit

if TYPE_CHECKING:
    pass

playbooks = typer.Typer(add_completion=False, help="The catalog: list, show, alias, tag, delete, undelete.")
app.add_typer(playbooks, name="playbooks")

Path = Annotated[str, typer.Argument(metavar="PATH")]
Prefix = Annotated[str, typer.Option(help="Only playbooks whose path begins with this")]
Tag = Annotated[str | None, typer.Option(help="Only playbooks with this tag")]


@playbooks.callback(invoke_without_command=True)
def catalog(
    context: typer.Context, prefix: Prefix = "", tag: Tag = None, on: On = None, store: Store = None, output_: Output = "text"
) -> None:
    """List the catalog (default: of the local store)."""
    if context.invoked_subcommand is None:
        _list(prefix, tag, False, on, store, output_)


@playbooks.command("ls")
def list_(
    prefix: Prefix = "",
    tag: Tag = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Only deleted ones")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """List playbooks with their aliases and tags (default: of the local store)."""
    _list(prefix, tag, deleted, on, store, output_)


def _list(prefix: str, tag: str | None, deleted: bool, on: str | None, store: str | None, how: str) -> None:
    with closing(backend(on or "local", store)) as where:
        found = where.api.playbooks(prefix or None, tag=tag, deleted=deleted or None)["playbooks"]
    shown: list[dict[str, Any]] = [{**each} for each in found]
    if how == "text":
        shown = [
            {
                "path": each["path"],
                "version": each["version"],
                "aliases": _aliases(each.get("aliases", {})),
                "tags": ", ".join(each.get("tags", ())),
                "digest": each["digest"][:19],
                **({"deleted": each.get("deleted_at", "")} if deleted else {}),
            }
            for each in found
        ]
    output.rows(shown, how)


@playbooks.command()
def show(path: Path, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Show a playbook's versions, aliases and tags, and who changed what."""
    with closing(backend(on or "local", store)) as where:
        about: dict[str, Any] = {**where.api.about_playbook(path)}
        about["versions"] = [version["version"] for version in where.api.playbook_versions(path)["versions"]]
    if output_ != "text":
        output.as_data(about, output_)
        return
    changes = about.pop("changes")
    told = {"versions": ", ".join(map(str, about.pop("versions"))), "aliases": _aliases(about["aliases"])}
    told |= {"tags": ", ".join(about["tags"]), "deleted": about["deleted_at"] or ""}
    output.result({"path": path, **{name: text for name, text in told.items() if text}})
    if changes:
        output.table(changes)


@playbooks.command()
def alias(
    path: Path,
    name: Annotated[str, typer.Argument(metavar="ALIAS")],
    versions: Annotated[
        list[str] | None,
        typer.Argument(help="A version, or several with their weights: 7=90 8=10", metavar="VERSION[=WEIGHT]..."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias")] = False,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Point PATH@ALIAS to a version, or split it between several by weights (default: of the local store)."""
    if remove == bool(versions):
        raise Exit(USAGE, "give either versions (noetl playbooks alias PATH prod 7) or --remove")
    weights = None if remove else _weights(versions or [])
    with closing(backend(on or "local", store)) as where:
        about = where.api.set_alias(path, name, weights)
    output.done(
        f"{path}@{name} is removed" if remove else f"{path}@{name} is version {_split(about['aliases'][name])}", about, output_
    )


def _weights(versions: list[str]) -> dict[int, int]:
    """Return versions with their weights, from `7` or `7=90 8=10`."""
    pairs = [text.partition("=") for text in versions]
    wrong = next((v for v, _, w in pairs if not v.isdecimal() or not (w or "1").isdecimal()), None)
    if wrong is not None:
        raise Exit(USAGE, f"{wrong}: a version is a number; with a weight it is written 7=90")
    if len(pairs) > 1 and any(not equals for _, equals, _ in pairs):
        raise Exit(USAGE, "several versions need a weight each: 7=90 8=10")
    if len({version for version, _, _ in pairs}) < len(pairs):
        raise Exit(USAGE, "name each version once: 7=90 8=10")
    return {int(version): int(weight or 1) for version, _, weight in pairs}


@playbooks.command()
def tag(
    path: Path,
    tags: Annotated[list[str] | None, typer.Argument(help="Tags to add", metavar="TAG...")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="A tag to remove; repeatable", metavar="TAG")] = None,
    on: On = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Add and remove tags, by which lists are filtered (default: of the local store)."""
    if not tags and not remove:
        raise Exit(USAGE, "name the tags to add, or --remove some")
    with closing(backend(on or "local", store)) as where:
        about = where.api.tag_playbook(path, tags or [], remove or [])
    output.done(f"{path}: {', '.join(about['tags']) or 'no tags'}", about, output_)


@playbooks.command()
def delete(path: Path, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Start nothing new from a playbook; running executions continue, its versions stay (default: of the local store)."""
    with closing(backend(on or "local", store)) as where:
        about = where.api.delete_playbook(path)
    output.done(
        f"{path} is deleted: nothing new starts from it (`noetl playbooks undelete {path}` brings it back)", about, output_
    )


@playbooks.command()
def undelete(path: Path, on: On = None, store: Store = None, output_: Output = "text") -> None:
    """Restore a deleted playbook (default: of the local store)."""
    with closing(backend(on or "local", store)) as where:
        about = where.api.undelete_playbook(path)
    output.done(f"{path} version {about['latest']} starts again", about, output_)


def _aliases(aliases: dict[str, dict[str, int]]) -> str:
    return ", ".join(f"{name}: {_split(weights)}" for name, weights in aliases.items())


def _split(weights: dict[str, int]) -> str:
    return next(iter(weights)) if len(weights) == 1 else " ".join(f"{version}={weight}" for version, weight in weights.items())
