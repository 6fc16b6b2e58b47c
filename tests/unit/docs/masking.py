"""The table of docs/language/masking.md: a canary goes through everything that templates can call."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

from noetl_core.expr import Secret, TemplateError, contains_secret, mask, render
from tests.fuzz.cases import OPERATORS, subjects

CANARY: Final = "Canary4f1D0b6a2c9e"
FORMS: Final = (
    CANARY,
    CANARY.upper(),
    CANARY[::-1],
    base64.b64encode(CANARY.encode()).decode().rstrip("="),
    CANARY.encode().hex(),
)
VALUES: Final = {
    "text": "keychain.token",
    "list": "[keychain.token, 'x']",
    "mapping": "{'a': keychain.token}",
    "number": "keychain.number",
    "time": "keychain.time",
    "json": "keychain.json",
    "base64": "keychain.base64",
}
ARGUMENTS: Final = (
    "",
    "'a'",
    "2",
    "'a', 'b'",
    "2, 3",
    "'upper'",
    "'eq', 'x'",
    "0, 'eq', 1",
    "start=''",
    "days=1",
    "keychain.list",
    "attribute='a'",
    "'0'",
)
SCOPE: Final = {
    "keychain": {
        "token": Secret(CANARY),
        "number": Secret(4711),
        "time": Secret("2026-11-21"),
        "json": Secret(f'["{CANARY}"]'),
        "base64": Secret(base64.b64encode(CANARY.encode()).decode()),
        "list": Secret([CANARY]),
    }
}
SPECIAL: Final = {
    "function namespace": ["{{ namespace(a=keychain.token).a }}"],
    "function joiner": ["{% set j = joiner(keychain.token) %}{{ j() }}{{ j() }}"],
}
"""Calls that give no data by themselves."""
ENOUGH: Final = 1
"""Calls of a subject that are enough, because they give something."""
HEAD: Final = """# Masking in templates

A value that a template derives from a secret is a secret. If an evaluation reads a secret, for any purpose, its whole result is masked. This table is generated:
a test secret passes through everything that templates can call. Each result is searched for the secret, verbatim, in upper case, reversed, in base64 and in hex; "yes" means that no part of the secret is visible.
A test fails if a new filter has no row here, or if the result of a search is not the one in its row. A condition (`when`) is a plain boolean, so an author can find out a secret by conditions ([access](../access.md#masking-of-secrets)).

| called | masking survives |
| --- | --- |
"""


def templates_of(subject: str) -> Iterator[str]:
    """Yield calls of `subject` with a canary."""
    yield from SPECIAL.get(subject, ())
    *group, name = subject.split(" ")
    for value, argument in product(VALUES.values(), ARGUMENTS):
        if subject in OPERATORS:
            if argument and "," not in argument and "=" not in argument:
                yield OPERATORS[subject] % (value, argument)
        elif group[0] == "filter":
            yield f"{{{{ {value} | {name}({argument}) }}}}"
        elif group[0] == "test":
            yield f"{{{{ [{value}] | select({', '.join(one for one in (repr(name), argument) if one)}) | length }}}}"
        elif group[0] == "function":
            yield f"{{{{ {name}({', '.join(one for one in (value, argument) if one)}) }}}}"
        else:
            yield f"{{{{ {value}.{name}({argument}) }}}}"


def results_of(subject: str) -> list[tuple[str, Any]]:
    """Return the first calls of `subject` that give something, and their results; also errors that show the canary."""
    found = []
    for template in templates_of(subject):
        try:
            found.append((template, render(template, SCOPE)))
        except TemplateError as error:
            if leaks(error.message):
                found.append((template, error.message))
        if len(found) == ENOUGH:
            break
    return found


def leaks(value: Any) -> bool:
    """Return whether the canary shows in `value`, as it is recorded."""
    shown = f"{mask(value)!r} {mask(value)}"
    return any(form in shown for form in FORMS)


def outcome_of(subject: str) -> str:
    """Return the cell of the table: what becomes of the canary."""
    results = results_of(subject)
    if not results:
        return "never called"
    if any(leaks(result) for _, result in results):
        return "no"
    return "yes" if any(contains_secret(result) for _, result in results) else "not read"


PAGE: Final = Path(__file__).parents[3] / "docs/language/masking.md"


def page() -> str:
    """Return the page."""
    rows = [(subject, outcome_of(subject)) for subject in subjects()]
    return HEAD + "".join(f"| {subject.replace('|', chr(92) + '|')} | {outcome} |\n" for subject, outcome in rows)
