"""Installs the packages that a playbook requires before it runs. Tasks would install them too, but within their timeout."""

from __future__ import annotations

from noetl_cli.errors import USAGE, Exit, say
from noetl_core.adapters.local.home import home, shown
from noetl_core.adapters.local.packages import LocalPackages
from noetl_core.ports import MissingPackages


def install(requirements: tuple[str, ...]) -> None:
    """Install missing packages, and report that. Raises `Exit(2)`."""
    packages = LocalPackages(home())
    folder = packages.folder(requirements)
    if folder.exists():
        return
    say(f"installing {', '.join(requirements)} into {shown(folder)}")
    try:
        packages(requirements)
    except MissingPackages as missing:
        raise Exit(USAGE, str(missing)) from None
