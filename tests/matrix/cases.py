"""Cases of the tool matrix as values."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import Any, Final, Literal

from noetl_core.dsl.kinds import ENGINE_KINDS, KINDS
from tests.matrix import kinds

Column = Literal["success", "errors", "timeout", "large result", "secret", "rights"]
COLUMNS: Final[tuple[Column, ...]] = ("success", "errors", "timeout", "large result", "secret", "rights")
BOTH: Final = ("local", "stack")
TOOL_KINDS: Final = tuple(kind for kind in KINDS if kind not in ENGINE_KINDS)
SECRET: Final = "Matrix-7f3A0c5e9b1D"
"""The field `token` of the credential `matrix`: no event may hold it."""


@dataclass(frozen=True)
class Case:
    """One task, and what comes of it: `gives` are templates over `_prev`, its result, with their values; `fails` is the kind of its
    error. `before` are tasks that run first. `on` are the wirings that it is about."""

    name: str
    task: Mapping[str, Any]
    column: Column = "success"
    gives: Mapping[str, Any] = field(default_factory=dict)
    fails: str = ""
    retryable: bool | None = None
    says: str = ""
    before: Sequence[Mapping[str, Any]] = ()
    on: Sequence[str] = BOTH


def module_of(kind: str) -> ModuleType | None:
    """The module that has the cases of a kind, if there is one."""
    name = f"{kind}_" if iskeyword(kind) else kind
    return import_module(f"tests.matrix.kinds.{name}") if kind in modules() else None


def modules() -> list[str]:
    """The kinds that have cases."""
    return sorted(name.removesuffix("_") for _, name, _ in pkgutil.iter_modules(kinds.__path__))


def cases_of(kind: str, wiring: str | None = None) -> list[Case]:
    """The cases of a kind, or those that are about a wiring."""
    module = module_of(kind)
    found: list[Case] = [] if module is None else module.CASES
    return [case for case in found if wiring is None or wiring in case.on]
