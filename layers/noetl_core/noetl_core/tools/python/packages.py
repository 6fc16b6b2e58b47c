"""Finds the packages that playbooks require in the layers of a stack.

A layer has sets of packages as folders of `noetl_packages`, each with the `requirements.txt` that it was installed for. A set
serves every playbook whose requirements are a subset of its own.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Final

from noetl_core.dsl.sections.requirements import FILE, requirements_of
from noetl_core.ports import MissingPackages

FOLDER: Final = "noetl_packages"


@cache
def sets() -> dict[Path, frozenset[str]]:
    """Return the sets of packages below the import path: their folders, and the requirements of each."""
    found: dict[Path, frozenset[str]] = {}
    for root in dict.fromkeys(sys.path):
        for file in sorted(Path(root, FOLDER).glob(f"*/{FILE}")) if root else ():
            found[file.parent] = requirements_of(file.read_text("utf-8"))
    return found


def deployed(requirements: tuple[str, ...]) -> str:
    """Return the folder of the smallest set that has `requirements`. Raises `MissingPackages`."""
    needs = frozenset(requirements)
    serving = [(len(has), str(folder)) for folder, has in sets().items() if needs <= has]
    if serving:
        return min(serving)[1]
    has = sorted(frozenset().union(*sets().values()))
    there = f"it has {', '.join(has)}" if has else "it has no packages at all"
    raise MissingPackages(
        f"this stack has no packages for {', '.join(requirements)} ({there}): deploy them with `noetl up --packages FILE`,"
        " where FILE is the playbook or a requirements.txt"
    )
