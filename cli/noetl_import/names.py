"""The names that an expression of a state may read, and the values that only Python can compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl_import.findings import Notes, Unmapped
from noetl_import.jsonpath import Step, applied, parsed
from noetl_import.values import Const, Doc, Expr

UUID: Final = ("uuid", "str(uuid.uuid4())", ("uuid",))
NOW: Final = (
    "now",
    "datetime.datetime.now(datetime.UTC).isoformat(timespec='milliseconds').replace('+00:00', 'Z')",
    ("datetime",),
)


@dataclass
class Computed:
    """Values that templates cannot compute, such as random ones: a task of Python before (or after) the task of a state."""

    task: str
    """The expression of the result of that task."""
    lines: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    args: dict[str, Doc] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)

    def add(self, kind: tuple[str, str, tuple[str, ...]], args: Mapping[str, Doc] | None = None, function: str = "") -> Doc:
        """Return the value of an expression of Python, in which `args` are named in braces. It may call a function."""
        if function:
            self.functions[function] = None
        label, expression, modules = kind
        name = f"{label}_{len(self.lines) + 1}" if self.lines else label
        for key, doc in (args or {}).items():
            self.args[f"{name}_{key}"] = doc
            expression = expression.replace("{" + key + "}", f"{name}_{key}")
        self.lines[name] = expression
        self.modules |= set(modules)
        return Expr(f"{self.task}.{name}", type="text" if label in ("uuid", "now", "hash") else "")

    def tasks(self, name: str) -> list[dict[str, Any]]:
        """Return the task that computes the values, if there are any."""
        if not self.lines:
            return []
        imports = [f"import {module}" for module in sorted(self.modules)]
        values = ", ".join(f'"{key}": {expression}' for key, expression in self.lines.items())
        task: dict[str, Any] = {"name": name, "kind": "python"}
        if self.args:
            task["args"] = {key: doc.yaml() for key, doc in self.args.items()}
        return [{**task, "code": "\n".join([*imports, *self.functions, f"result = {{{values}}}"]) + "\n"}]


@dataclass(frozen=True)
class Machine:
    """The part of a state machine that all of its states share."""

    name: str
    path: str
    language: str = "JSONPath"


@dataclass
class Names:
    """The names that expressions of a state may read. `doc` is `$`; `result` and `error` are those of `$states` in JSONata."""

    doc: Doc
    machine: Machine
    state: str
    notes: Notes
    computed: Computed
    variables: Mapping[str, Doc]
    execution_input: Callable[[], Doc]
    execution_id: Callable[[], Doc]
    execution_start: Callable[[], Doc]
    item: Mapping[str, Doc] = field(default_factory=dict)
    """`Value` and `Index` of an element of a Map."""
    token: Doc | None = None
    result: Doc | None = None
    error: Doc | None = None

    def of(self, doc: Doc, **changes: Any) -> Names:
        """Return the same names with another `$`."""
        return replace(self, doc=doc, **changes)

    def path(self, path: str) -> Doc:
        """Return the value of a path: of the document, of the context object (`$$.`), or of a variable."""
        if path.startswith("$$"):
            return self.context(parsed(path))
        if path == "$" or path[1:2] in (".", "["):
            return applied(self.doc, parsed(path))
        (_, name), *rest = parsed(path)
        return applied(self.variable(str(name)), rest)

    def variable(self, name: str) -> Doc:
        if name not in self.variables:
            raise Unmapped(f"no earlier state assigns the variable ${name}", "assign it in an earlier state")
        return self.variables[name]

    def context(self, steps: list[Step]) -> Doc:
        """Return a member of the context object. Raises `Unmapped` for those that an execution does not have."""
        match [value for _, value in steps]:
            case ["Execution", "Input", *_]:
                return applied(self.execution_input(), steps[2:])
            case ["Execution", "Id" | "Name"]:
                return self.execution_id()
            case ["Execution", "StartTime"]:
                return self.execution_start()
            case ["State", "Name"]:
                return Const(self.state)
            case ["State", "EnteredTime"]:
                return self.computed.add(NOW)
            case ["State", "RetryCount"]:
                return Expr("_attempt - 1", 2, "number")
            case ["StateMachine", "Name"]:
                return Const(self.machine.name)
            case ["StateMachine", "Id"]:
                self.notes.attention("the ARN of the state machine is the path of the playbook", "check what reads it")
                return Const(self.machine.path)
            case ["Map", "Item", ("Value" | "Index") as key, *_] if key in self.item:
                return applied(self.item[key], steps[3:])
            case ["Task", "Token"] if self.token is not None:
                return self.token
        name = ".".join(str(value) for _, value in steps)
        raise Unmapped(
            f"the context object has no {name or 'whole value'} here", "pass the value in the input, or compute it in a task"
        )
