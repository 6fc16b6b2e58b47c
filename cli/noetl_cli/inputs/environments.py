"""`noetl.toml`: the default recipient of failures (`on_failure`), and the sections `[env.NAME]` of `noetl run --env NAME`,
with the settings of each environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl_cli.errors import USAGE, Exit
from noetl_core.values import strict_json

if TYPE_CHECKING:
    from noetl_core.dsl.model import OnFailure

FILE = "noetl.toml"
KEYS = {"payload": dict, "on": str, "store": str}


@dataclass(frozen=True)
class Environment:
    """The content of a section."""

    payload: Mapping[str, Any]
    on: str | None = None
    store: str | None = None


def environment(name: str, playbook: Path | None) -> Environment:
    """Return the section of `name`: of the nearest `noetl.toml` in the folder of the playbook or above it, else in this folder or
    above it. Raises `Exit(2)`."""
    places = [playbook.resolve().parent] if playbook is not None else []
    file = next((file for place in (*places, Path.cwd()) if (file := _nearest(place)) is not None), None)
    if file is None:
        raise Exit(USAGE, f"--env {name}: there is no {FILE} in this folder, the playbook's folder, or a folder above them")
    sections = _sections(file)
    if name not in sections:
        from noetl_core.dsl.reading.diagnostics import suggest  # 12 ms: needed only for misspelt names

        known = f"it has {', '.join(sorted(sections))}" if sections else "it has no environments"
        raise Exit(USAGE, f"--env {name}: {file} has no [env.{name}] ({suggest(name, sections) or known})")
    return _environment(name, sections[name], file)


def on_failure() -> OnFailure | None:
    """Return the default recipient of failures: `on_failure` of the nearest `noetl.toml`, in this folder or above it. Raises
    `Exit(2)`."""
    file = _nearest(Path.cwd())
    line = None if file is None else _document(file).get("on_failure")
    if line is None:
        return None
    from noetl_core.dsl.sections.failures import default_handler  # 1 ms: needed only with a default

    if not isinstance(line, str):
        raise Exit(USAGE, f"{file}: on_failure must be text: a playbook's path, an address or the ARN of a topic")
    try:
        return default_handler(line)
    except ValueError as error:
        raise Exit(USAGE, f"{file}: on_failure: {error}") from None


def _nearest(folder: Path) -> Path | None:
    return next((place / FILE for place in (folder, *folder.parents) if (place / FILE).is_file()), None)


def _document(file: Path) -> Mapping[str, Any]:
    import tomllib  # 3 ms: needed only with such a file

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Exit(USAGE, f"{file}: {error}") from None


def _sections(file: Path) -> Mapping[str, Any]:
    sections = _document(file).get("env", {})
    if not isinstance(sections, dict):
        raise Exit(USAGE, f"{file}: env must have one table for each environment, for example [env.prod]")
    return sections


def _environment(name: str, section: Any, file: Path) -> Environment:
    what = f"{file}: [env.{name}]"
    if not isinstance(section, dict):
        raise Exit(USAGE, f"{what} must be a table")
    for key, value in section.items():
        if key not in KEYS:
            raise Exit(
                USAGE, f"{what} has an unknown key {key!r}: it takes {', '.join(KEYS)}; inputs go into [env.{name}.payload]"
            )
        if not isinstance(value, KEYS[key]):
            raise Exit(USAGE, f"{what}: {key} must be {'a table' if KEYS[key] is dict else 'text'}")
    try:
        strict_json.check(section)
    except ValueError as error:
        raise Exit(USAGE, f"{what}: {error}; write dates as text") from None
    return Environment(section.get("payload", {}), section.get("on"), section.get("store"))
