"""`executor.spec.python.requirements`: the additional packages that python tasks import.

A requirement is a name with versions, in pip's form (`pandas==2.2.3`, `httpx[http2]>=0.28`). Where packages come from - the
index, its address and its password - belongs to the machine that installs them, so no address stands in a playbook.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader

MOST: Final = 50
LONGEST: Final = 200
HINT: Final = "a package name with versions as pip writes them, for example pandas==2.2.3"
FILE: Final = "requirements.txt"
"""The file beside installed packages that lists the requirements they were installed for, one per line."""


def requirement(text: str) -> tuple[str, str]:
    """Return a requirement in normalised form, and the name of its package. Raises `ValueError` with the reason."""
    from packaging.requirements import InvalidRequirement, Requirement  # 15 ms, with the next: few playbooks have any
    from packaging.utils import canonicalize_name

    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    try:
        read = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    if read.url is not None:
        raise ValueError("a requirement must not contain an address: set the package index on the machine that installs packages")
    read.name = canonicalize_name(read.name)
    return str(read), read.name


def requirements_of(text: str) -> frozenset[str]:
    """Return the requirements in the text of a requirements.txt: requirements and comments, no options. Raises `ValueError`."""
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    found = set[str]()
    for line in lines:
        if line and not line.startswith("#"):
            try:
                found.add(requirement(line)[0])
            except ValueError as error:
                raise ValueError(f'"{line[:60]}" is not a requirement: {error}') from None
    return frozenset(found)


def read_requirements(r: Reader, node: Node | None) -> tuple[str, ...]:
    """Return the requirements that a playbook lists, normalised and in order; errors are reported."""
    what = "requirements of python of executor"
    items = r.sequence(node, what)
    if len(items) > MOST and node is not None:
        r.report("E124", node, f"{what} has {len(items)} entries", f"at most {MOST}")
    found: dict[str, str] = {}
    for item in items[:MOST]:
        text = r.text(item, f"an entry of {what}")
        if text is None:
            continue
        try:
            canonical, name = requirement(text)
        except ValueError as error:
            r.report("E129", item, f'"{text[:60]}" is not a requirement: {error}', HINT)
            continue
        if name in found:
            r.report("E129", item, f"{what} names {name} twice", "keep one")
        found[name] = canonical
    return tuple(sorted(found.values()))


def digest(requirements: Iterable[str]) -> str:
    """Return the key of a set of normalised requirements: the same for the same set in any order."""
    return sha256("\n".join(sorted(requirements)).encode()).hexdigest()[:16]
