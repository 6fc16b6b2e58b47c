"""The tool kinds: which inputs and options each takes, and which of them belong together.

Tools implement the kinds; validation and the schema read them.

An input that is written under another accepted name (`aliases`) keeps that name in `Task.inputs`; tools read the canonical
name through `canonical_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_core.dsl.fields.kind import KindSpec
from noetl_core.dsl.fields.kinds import aws, calls, data, engine, plugins, services
from noetl_core.dsl.fields.tools import COMMON_OPTIONS
from noetl_core.dsl.fields.types import Field

COMMON_SPEC: Final = frozenset(f.name for f in COMMON_OPTIONS)
"""Spec keys every kind takes."""

NO_EFFECT_SPEC: Final = tuple(f.name for f in COMMON_OPTIONS if not f.effect)
"""Declared placeholders among them (resolution 30)."""

KINDS: Final[dict[str, KindSpec]] = {**calls.KINDS, **data.KINDS, **services.KINDS, **aws.KINDS, **plugins.KINDS, **engine.KINDS}

PLUGINS: Final = {"container": "noetl-container", "quantum": "noetl-quantum", "snowflake": "noetl-snowflake"}
"""Kinds that the language knows and a separate distribution implements."""
ENGINE_KINDS: Final = frozenset(engine.KINDS)
"""Kinds that the engine runs itself or that normalisation resolves; the others are tools."""

WAITING_KINDS: Final = frozenset({"wait", "callback", "playbook"})
"""Kinds whose tasks suspend their run until an answer comes."""

ALL_OPTIONS: Final[Mapping[str, Field]] = {
    option.name: option for options in (COMMON_OPTIONS, *(kind.options for kind in KINDS.values())) for option in options
}
"""The options of all kinds of tasks, by name. An outer scope may set defaults for them."""

ALL_SPEC: Final = frozenset(ALL_OPTIONS)
"""Spec keys that an outer scope may default for the tasks below it."""


def canonical_inputs(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return `inputs` with accepted spellings replaced by the canonical names."""
    spec = KINDS.get(kind)
    return dict(inputs) if spec is None else {spec.aliases.get(k, k): v for k, v in inputs.items()}
