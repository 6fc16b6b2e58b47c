"""`noetl new`: a folder with a playbook, its tests and a README, from a template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final

import click
import typer
from click.shell_completion import CompletionItem

from noetl_cli.app import app
from noetl_cli.errors import USAGE, Exit, say

TEMPLATES: Final = Path(__file__).parents[2] / "templates"
"""A folder for each template. Its playbook has the template's name, and the path `templates/<template>`."""


class Template(click.ParamType):
    """The name of a template."""

    name = "TEMPLATE"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name, help=about) for name, about in _templates() if name.startswith(incomplete)]


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The folder, and the playbook's path: reports/daily")] = "",
    template: Annotated[str, typer.Option(click_type=Template(), help="The template; without it, all are listed")] = "",
) -> None:
    """Write a playbook from a template, with tests and a README, into the folder NAME."""
    known = dict(_templates())
    if not name and not template:
        print(_listed(known))
        return
    if template not in known:
        near = get_close_matches(template, known, n=1)
        told = f"there is no template {template}" if template else f"which template? noetl new {name} --template TEMPLATE"
        raise Exit(USAGE, told + (f" (did you mean {near[0]}?)" if near else "") + f"\n{_listed(known)}")
    folder = Path(name or template)
    texts = {folder / file.name: file.read_text("utf-8") for file in sorted((TEMPLATES / template).iterdir())}
    if present := [str(file) for file in texts if file.exists()]:
        raise Exit(USAGE, f"{', '.join(present)}: already there, and nothing is overwritten (choose another name)")
    path = _path_of(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            with file.open("x", encoding="utf-8", newline="\n") as out:
                out.write(_adapted(text, template, path))
            print(file)
    except OSError as error:
        raise Exit(USAGE, f"{error.filename}: {error.strerror}") from None
    say(f"test it: noetl test {folder}\nnext: {folder / 'README.md'}")


def _templates() -> Iterator[tuple[str, str]]:
    """Yield the name and the purpose of each template."""
    for file in sorted(TEMPLATES.glob("*/playbook.yaml")):
        about = re.search(r"^  description: (.+)", file.read_text("utf-8"), re.MULTILINE)
        yield file.parent.name, about[1] if about else ""


def _listed(templates: dict[str, str]) -> str:
    width = max(map(len, templates))
    return "\n".join(f"{name:<{width}}  {about}" for name, about in templates.items())


def _path_of(folder: Path) -> str:
    """Return the path in the catalog of the playbook in a folder. Raises `Exit(2)`."""
    from noetl_core.dsl.fields.playbook import PLAYBOOK_PATH  # 40 ms: needed only to write a playbook

    path = folder.resolve().name if folder.is_absolute() or ".." in folder.parts or not folder.name else folder.as_posix()
    if not PLAYBOOK_PATH.match(path):
        raise Exit(USAGE, f"{path!r} cannot be the path of a playbook: letters, digits, `_`, `-` and `.` in words separated by /")
    return path


def _adapted(text: str, template: str, path: str) -> str:
    """Return a text of a template with the path and the name of the new playbook."""
    from noetl_migrate.write import quoted  # 40 ms: needed only to write a playbook

    name = path.rpartition("/")[2]
    text = text.replace(f"\n  path: templates/{template}\n", f"\n  path: {quoted(path)}\n")
    text = text.replace(f"\n  name: {template}\n", f"\n  name: {quoted(name)}\n", 1)
    return re.sub(rf"\A# {template}$", f"# {name}", text, flags=re.MULTILINE).replace(f"templates/{template}", path)
