"""Packages that a playbook requires, installed before it runs: a task would do it too, but within its own time."""

from __future__ import annotations

from noetl_cli.errors import USAGE, Exit, say
from noetl_core.adapters.local.home import home, shown
from noetl_core.adapters.local.packages import LocalPackages
from noetl_core.ports import MissingPackages


def install(requirements: tuple[str, ...]) -> None:
    """Install what is not installed yet, and say so. Raises `Exit(2)`."""
    packages = LocalPackages(home())
    folder = packages.folder(requirements)
    if folder.exists():
        return
    say(f"installing {', '.join(requirements)} into {shown(folder)}")
    try:
        packages(requirements)
    except MissingPackages as missing:
        raise Exit(USAGE, str(missing)) from None
