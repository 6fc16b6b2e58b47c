"""The parts of a playbook that one state becomes, before they are steps of a graph or tasks of a pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_import.values import RESERVED, Doc, Expr

TAKEN: Final = RESERVED | {
    "ctx", "iter", "args", "workload", "steps", "outcome", "event", "keychain", "callback", "trigger", "input",
    "dict", "range", "list",
}  # fmt: skip
"""Names that mean something else in templates."""

OWN: Final = frozenset({"data", "output", "item", "index", "parent"})
"""Names of values that the import stores itself."""


@dataclass
class Exit:
    """A way out of a state. `target` is the next state, None where the machine ends.

    `when` is the condition of a rule of a Choice; `error` the condition of a catcher, "" for any error. `writes` are values that
    it stores.
    """

    target: str | None
    doc: Doc
    when: str = ""
    error: str | None = None
    writes: dict[str, Doc] = field(default_factory=dict)
    caught: tuple[str, Doc] | None = None
    """For a catcher: the name under which its error is stored, and the document with the error itself."""

    def store(self, name: str) -> None:
        """Store the document on this way."""
        if self.caught is not None:  # an arc cannot read its own writes
            self.writes.pop(self.caught[0], None)
        self.writes[name] = self.doc if self.caught is None else self.caught[1]


@dataclass
class Unit:
    """The translation of a state. Tasks `before` and `after` compute values that templates cannot; `branches` are those of a
    Parallel state."""

    name: str
    exits: list[Exit]
    tasks: list[dict[str, Any]] = field(default_factory=list)
    loop: dict[str, Any] | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    """Rules of the policy of the last task, before those of its exits."""
    result: Doc | None = None
    """The expression of the result of its task."""
    before: list[dict[str, Any]] = field(default_factory=list)
    after: list[dict[str, Any]] = field(default_factory=list)
    branches: Sequence[Mapping[str, Any]] = ()
    branch_input: Doc | None = None
    fails: bool = False
    """True if it never succeeds."""
    no_match: bool = False
    """True if the execution fails when no exit fits."""


@dataclass(frozen=True)
class Scope:
    """The place of states: steps of a graph, or tasks of the pipeline of a loop. `prefix` makes names of values its own."""

    graph: bool
    prefix: str = ""

    @property
    def store(self) -> str:
        return "ctx" if self.graph else "iter"

    @property
    def error(self) -> str:
        return "event.error" if self.graph else "outcome.error"

    @property
    def data(self) -> str:
        """The name under which the document is stored where several ways meet."""
        return f"{self.prefix}_data" if self.prefix else "data"

    def result(self, name: str) -> Expr:
        return Expr(f"steps.{name}.result" if self.graph else name)

    def stored(self, name: str) -> Expr:
        return Expr(f"{self.store}.{name}")

    def variable(self, name: str) -> Expr:
        """Return the place of a variable, which is not that of a value of the import."""
        own = name in OWN or name.endswith(("_data", "_error", "_result"))
        return self.stored("_".join(part for part in (self.prefix, name, "variable" if own else "") if part))

    def reads(self, doc: Doc, names: Iterable[str]) -> bool:
        """Return True if a document reads the result of one of these steps or tasks."""
        text = doc.text()
        lead = r"\bsteps\." if self.graph else r"(?<![\w.])"
        return any(re.search(rf"{lead}{re.escape(name)}\b", text) for name in names)


class Labels:
    """Names of steps and tasks: those of the states, in lower case with underscores, each used once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def of(self, state: str) -> str:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", state)
        name = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "state"
        if name[0].isdigit() or name in TAKEN:
            name = f"state_{name}"
        unique, count = name, 2
        while unique in self.taken:
            unique, count = f"{name}_{count}", count + 1
        self.taken.add(unique)
        return unique


def task_named(name: str, task: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **{key: value for key, value in task.items() if key != "name"}}
