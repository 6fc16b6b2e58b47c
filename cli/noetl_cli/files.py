"""Playbook files as commands take them."""

from __future__ import annotations

from pathlib import Path

from noetl_cli.errors import USAGE, Exit


def read(file: Path) -> str:
    """The text of a file. Raises `Exit(2)`."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Exit(USAGE, f"{file}: {error}") from None


def check(source: str, file: Path) -> None:
    """Raise `InvalidPlaybook` where the text is no valid playbook."""
    from noetl_core.dsl.parse import parse_playbook

    parse_playbook(source, str(file))
