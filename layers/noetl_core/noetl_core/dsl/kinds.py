"""The tool kinds: which inputs and options each takes, and which of them belong together.

Tools implement the kinds; validation and the schema read them.

An input that is written under another accepted name (`aliases`) keeps that name in `Task.inputs`; tools read the canonical
name through `canonical_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.dsl.fields.tools import ALL_OPTIONS, COMMON_OPTIONS, INPUTS, OPTIONS, PAGES
from noetl_core.dsl.fields.types import Choice, Code, Duration, Field, Shape, Values


def words(text: str) -> frozenset[str]:
    """Return a set of keys that are written in one line."""
    return frozenset(text.split())


class KindSpec:
    """What a task of one kind may contain."""

    __slots__ = (
        "aliases",
        "choices",
        "durations",
        "exclusive",
        "fields",
        "inputs",
        "maps",
        "needs",
        "options",
        "page",
        "raw",
        "references",
        "required",
        "spec",
    )

    def __init__(
        self,
        fields: tuple[Field, ...],
        options: tuple[Field, ...] = (),
        page: str = "",
        *,
        required: tuple[frozenset[str], ...] = (),
        exclusive: tuple[frozenset[str], ...] = (),
        needs: Mapping[str, str] | None = None,
    ) -> None:
        known = {f.name: f.type for f in fields}
        self.fields = fields
        """Its inputs, other spellings among them."""
        self.options = options
        """Keys of its `spec`, beside those that every kind takes."""
        self.page = page
        """Where it is explained."""
        self.required = required
        """Of each group at least one key must be there."""
        self.exclusive = exclusive
        """Of each group at most one key."""
        self.needs = needs or {}
        """A key that means something only beside another."""
        self.inputs = frozenset(f.name for f in fields if not f.same_as)
        self.spec = frozenset(f.name for f in options)
        self.aliases = {f.name: f.same_as for f in fields if f.same_as}
        """Accepted spelling -> canonical input."""
        self.maps = frozenset(name for name, kind in known.items() if isinstance(kind, Values | Shape))
        """Inputs that must be mappings (or one whole template)."""
        self.raw = frozenset(name for name, kind in known.items() if isinstance(kind, Code))
        """Inputs that are program text: never rendered."""
        self.references = frozenset(f.name for f in fields if f.references and not f.same_as)
        """Inputs that may hold references, which the kind reads or passes on itself; all others are values."""
        self.choices = {name: kind.words for name, kind in known.items() if isinstance(kind, Choice)}
        self.durations = {name: kind.allowed for name, kind in known.items() if isinstance(kind, Duration)}
        """Inputs that are seconds, or text such as `15m`."""

    @property
    def accepted(self) -> frozenset[str]:
        return self.inputs | frozenset(self.aliases)


COMMON_SPEC: Final = frozenset(f.name for f in COMMON_OPTIONS)
"""Spec keys every kind takes."""

NO_EFFECT_SPEC: Final = tuple(f.name for f in COMMON_OPTIONS if not f.effect)
"""Declared placeholders among them (resolution 30)."""

_SQL: Final = words("command commands query queries sql")


def _kind(name: str, **rules: Any) -> KindSpec:
    return KindSpec(INPUTS[name], OPTIONS.get(name, ()), PAGES.get(name, f"tools.md#{name}"), **rules)


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
    """Return `inputs` with accepted spellings replaced by the canonical names."""
    spec = KINDS.get(kind)
    return dict(inputs) if spec is None else {spec.aliases.get(k, k): v for k, v in inputs.items()}
