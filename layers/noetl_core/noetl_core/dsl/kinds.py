"""The tool kinds: which inputs and options each takes, and how they go together.

Tools implement them; validation and the schema read them.

An input written under another accepted name (`aliases`) keeps that name in `Task.inputs`; tools read the canonical name through
`canonical_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_core.dsl.fields.tools import ALL_OPTIONS, COMMON_OPTIONS, INPUTS, OPTIONS, PAGES
from noetl_core.dsl.fields.types import Choice, Code, Duration, Field, Shape, Values
from noetl_core.dsl.numbers import Range


def words(text: str) -> frozenset[str]:
    """A set of keys written in one line."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class KindSpec:
    """What a task of one kind may say. `required`: of each group at least one key must be there."""

    fields: tuple[Field, ...]
    """Its inputs, other spellings among them."""
    options: tuple[Field, ...] = ()
    """Keys of its `spec`, beside those that every kind takes."""
    page: str = ""
    """Where it is explained."""
    required: tuple[frozenset[str], ...] = ()
    exclusive: tuple[frozenset[str], ...] = ()
    """Of each group at most one key."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """A key that means something only beside another."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The kind's defaults for `spec` (spec layering, canonical 3.1)."""

    inputs: frozenset[str] = field(init=False)
    spec: frozenset[str] = field(init=False)
    aliases: Mapping[str, str] = field(init=False)
    """Accepted spelling -> canonical input."""
    maps: frozenset[str] = field(init=False)
    """Inputs that must be mappings (or one whole template)."""
    raw: frozenset[str] = field(init=False)
    """Inputs that are program text: never rendered."""
    references: frozenset[str] = field(init=False)
    """Inputs that may hold references, which the kind reads or passes on itself (resolution 22); all others are values."""
    choices: Mapping[str, tuple[str, ...]] = field(init=False)
    durations: Mapping[str, Range] = field(init=False)
    """Inputs that are seconds, or text such as `15m`."""

    def __post_init__(self) -> None:
        known = {f.name: f.type for f in self.fields}
        derived = {
            "inputs": frozenset(f.name for f in self.fields if not f.same_as),
            "spec": frozenset(f.name for f in self.options),
            "aliases": {f.name: f.same_as for f in self.fields if f.same_as},
            "maps": frozenset(name for name, kind in known.items() if isinstance(kind, Values | Shape)),
            "raw": frozenset(name for name, kind in known.items() if isinstance(kind, Code)),
            "references": frozenset(f.name for f in self.fields if f.references and not f.same_as),
            "choices": {name: kind.words for name, kind in known.items() if isinstance(kind, Choice)},
            "durations": {name: kind.allowed for name, kind in known.items() if isinstance(kind, Duration)},
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def accepted(self) -> frozenset[str]:
        return self.inputs | frozenset(self.aliases)


COMMON_SPEC: Final = frozenset(f.name for f in COMMON_OPTIONS)
"""Spec keys every kind takes."""

NO_EFFECT_SPEC: Final = tuple(f.name for f in COMMON_OPTIONS if not f.effect)
"""Declared placeholders among them (resolution 30)."""

_SQL: Final = words("command commands query queries sql")


def _kind(
    name: str,
    *,
    required: tuple[frozenset[str], ...] = (),
    exclusive: tuple[frozenset[str], ...] = (),
    needs: Mapping[str, str] | None = None,
) -> KindSpec:
    page = PAGES.get(name, f"tools.md#{name}")
    return KindSpec(INPUTS[name], OPTIONS.get(name, ()), page, required, exclusive, needs or {})


KINDS: Final[dict[str, KindSpec]] = {
    "http": _kind(
        "http", required=(words("url endpoint"),), exclusive=(words("url endpoint"), words("body json payload data form"))
    ),
    "python": _kind("python", required=(words("code"),)),
    "duckdb": _kind("duckdb", required=(_SQL,), exclusive=(_SQL, words("params args"))),
    "postgres": _kind("postgres", required=(_SQL,), exclusive=(_SQL, words("params args"), words("auth connection"))),
    "noop": _kind("noop"),
    "store": _kind("store", required=(words("data"),)),
    "secrets": _kind("secrets", required=(words("secret secret_name key"),), exclusive=(words("secret secret_name key"),)),
    "playbook": _kind(
        "playbook",
        required=(words("path"),),
        exclusive=(words("payload args workload"), words("result detach")),
        needs={"idempotency_key": "detach"},
    ),
    "callback": _kind("callback", exclusive=(words("signal heartbeat"),)),
    "wait": _kind("wait", required=(words("duration seconds until"),), exclusive=(words("duration seconds until"),)),
    "workbook": _kind("workbook"),
    "quantum": _kind("quantum", required=(words("circuit job_id"),)),
}

ENGINE_KINDS: Final = words("playbook callback wait workbook")
"""Kinds that the engine carries out itself or that normalisation resolves; the others are tools."""

ALL_SPEC: Final = frozenset(ALL_OPTIONS)
"""Spec keys that an outer scope may default for the tasks below it."""


def canonical_inputs(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """`inputs` with accepted spellings replaced by the canonical names."""
    spec = KINDS.get(kind)
    return dict(inputs) if spec is None else {spec.aliases.get(k, k): v for k, v in inputs.items()}
