"""The table of tool kinds: the inputs and spec keys of each. Tools implement them; validation and the schema read them.

An input that is written under another accepted name (`aliases`) keeps that name in `Task.inputs`; tools read the canonical
name through `canonical_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_core.dsl.numbers import ANSWER, HEARTBEAT, WAIT, Range


@dataclass(frozen=True, slots=True)
class KindSpec:
    """What a task of one kind may contain. `required`: of each group at least one key must be present."""

    inputs: frozenset[str]
    required: tuple[frozenset[str], ...] = ()
    spec: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Accepted spelling -> canonical input."""
    maps: frozenset[str] = frozenset()
    """Inputs that must be mappings (or one whole template)."""
    raw: frozenset[str] = frozenset()
    """Inputs that are program text: never rendered."""
    references: frozenset[str] = frozenset()
    """Inputs that may hold references, which the kind reads or passes on itself (resolution 22); all others are values."""
    choices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The kind's defaults for `spec` (spec layering, canonical step spec 3.1)."""
    exclusive: tuple[frozenset[str], ...] = ()
    """Of each group at most one key."""
    durations: Mapping[str, Range] = field(default_factory=dict)
    """Inputs that are seconds, or text such as `15m`."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """A key that means something only beside another."""

    @property
    def accepted(self) -> frozenset[str]:
        return self.inputs | frozenset(self.aliases)


def words(text: str) -> frozenset[str]:
    """Return a set of keys that are written in one line."""
    return frozenset(text.split())


COMMON_SPEC: Final = words("timeout timeout_s resources tracing")
"""Spec keys every kind takes."""

NO_EFFECT_SPEC: Final = ("resources", "tracing")
"""Declared placeholders among them (resolution 30)."""

_METHODS: Final = words("GET HEAD POST PUT PATCH DELETE OPTIONS get head post put patch delete options")
_SQL: Final = words("command commands params")
_SQL_ALIASES: Final = {"query": "command", "sql": "command", "queries": "commands", "args": "params"}
_SQL_REQUIRED: Final = (words("command commands query queries sql"),)

KINDS: Final[dict[str, KindSpec]] = {
    "http": KindSpec(
        inputs=words("method url params headers body json form auth cookies"),
        required=(words("url endpoint"),),
        spec=words("retry follow_redirects max_redirects verify max_response_bytes response raise_for_status ok_statuses"),
        aliases={"endpoint": "url", "payload": "json", "data": "body"},
        maps=words("params headers form cookies"),
        choices={"method": _METHODS},
        exclusive=(words("url endpoint"), words("body json payload data form")),
    ),
    "python": KindSpec(
        inputs=words("code args libs entry"),
        required=(words("code"),),
        spec=words("memory_mb max_output_bytes network"),
        maps=words("args libs"),
        raw=words("code"),
    ),
    "duckdb": KindSpec(
        inputs=_SQL | words("database sources"),
        required=_SQL_REQUIRED,
        spec=words("max_rows memory_limit threads"),
        aliases=_SQL_ALIASES,
        maps=words("sources"),
        references=words("sources"),
        exclusive=(words("command commands query queries sql"), words("params args")),
    ),
    "postgres": KindSpec(
        inputs=_SQL | words("auth connection database rows"),
        required=_SQL_REQUIRED,
        spec=words("max_rows read_only statement_timeout isolation"),
        aliases=_SQL_ALIASES,
        exclusive=(words("command commands query queries sql"), words("params args"), words("auth connection")),
    ),
    "noop": KindSpec(inputs=words("args result data message"), maps=words("args")),
    "store": KindSpec(
        inputs=words("data key format schema_hint"),
        required=(words("data"),),
        spec=words("max_bytes"),
        references=words("data"),
    ),
    "secrets": KindSpec(
        inputs=words("secret field"),
        required=(words("secret secret_name key"),),
        aliases={"secret_name": "secret", "key": "secret"},
        exclusive=(words("secret secret_name key"),),
    ),
    "playbook": KindSpec(
        inputs=words("path version payload ctx result detach idempotency_key"),
        required=(words("path"),),
        aliases={"args": "payload", "workload": "payload"},
        maps=words("payload args workload ctx"),
        references=words("payload ctx"),
        exclusive=(words("payload args workload"), words("result detach")),
        needs={"idempotency_key": "detach"},
    ),
    "callback": KindSpec(
        inputs=words("signal timeout heartbeat schema description"),
        maps=words("schema"),
        exclusive=(words("signal heartbeat"),),
        durations={"timeout": ANSWER, "heartbeat": HEARTBEAT},
    ),
    "wait": KindSpec(
        inputs=words("duration seconds until result"),
        required=(words("duration seconds until"),),
        exclusive=(words("duration seconds until"),),
        durations={"duration": WAIT, "seconds": WAIT},
    ),
    "workbook": KindSpec(inputs=words("task args")),
    "quantum": KindSpec(
        inputs=words("action backend circuit params shots seed job_id"),
        required=(words("circuit job_id"),),
        maps=words("params"),
        choices={"action": words("run submit status result")},
    ),
}

ENGINE_KINDS: Final = words("playbook callback wait workbook")
"""Kinds that the engine carries out itself or that normalisation resolves; the others are tools."""

ALL_SPEC: Final = COMMON_SPEC.union(*(k.spec for k in KINDS.values()))
"""Spec keys that an outer scope may default for the tasks below it."""


def canonical_inputs(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return `inputs` with accepted spellings replaced by the canonical names."""
    spec = KINDS.get(kind)
    return dict(inputs) if spec is None else {spec.aliases.get(k, k): v for k, v in inputs.items()}
