"""The tool kinds as data: which inputs and spec keys each takes. Tools implement them; validation and the schema read them.

An input written under another accepted name (`aliases`) keeps that name in `Task.inputs`; tools read the canonical name through
`canonical_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class KindSpec:
    """What a task of one kind may say. `required`: of each group at least one key must be there."""

    inputs: frozenset[str]
    required: tuple[frozenset[str], ...] = ()
    spec: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Accepted spelling -> canonical input."""
    maps: frozenset[str] = frozenset()
    """Inputs that must be mappings (or one whole template)."""
    raw: frozenset[str] = frozenset()
    """Inputs that are program text: never rendered."""
    choices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The kind's defaults for `spec` (spec layering, canonical 3.1)."""
    exclusive: tuple[frozenset[str], ...] = ()
    """Of each group at most one key."""

    @property
    def accepted(self) -> frozenset[str]:
        return self.inputs | frozenset(self.aliases)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


COMMON_SPEC: Final = _set("timeout timeout_s resources tracing")
"""Spec keys every kind takes."""

_METHODS: Final = _set("GET HEAD POST PUT PATCH DELETE OPTIONS get head post put patch delete options")
_SQL: Final = _set("command commands params args auth connection")
_SQL_ALIASES: Final = {"query": "command", "sql": "command", "queries": "commands"}
_SQL_REQUIRED: Final = (_set("command commands query queries sql"),)
_SQL_SPEC: Final = _set("max_rows read_only pool statement_timeout isolation transaction fetch")

KINDS: Final[dict[str, KindSpec]] = {
    "http": KindSpec(
        inputs=_set("method url params headers body json form auth cookies files"),
        required=(_set("url endpoint"),),
        spec=_set(
            "retry follow_redirects max_redirects verify max_response_bytes response raise_for_status allow_private proxy "
            "rate_limit cache http2 ok_statuses"
        ),
        aliases={"endpoint": "url", "payload": "json", "data": "body"},
        maps=_set("params headers form cookies"),
        choices={"method": _METHODS},
        exclusive=(_set("url endpoint"), _set("body json payload data form")),
    ),
    "python": KindSpec(
        inputs=_set("code args libs entry file"),
        required=(_set("code file entry"),),
        spec=_set("memory_mb isolation env max_output_bytes sandbox network"),
        maps=_set("args libs"),
        raw=_set("code"),
    ),
    "duckdb": KindSpec(
        inputs=_SQL | _set("database sources attach extensions output file"),
        required=(_set("command commands query queries sql file"),),
        spec=_SQL_SPEC | _set("memory_limit threads external_access memory_mb"),
        aliases=_SQL_ALIASES,
        maps=_set("sources"),
        exclusive=(_set("command commands query queries sql file"),),
    ),
    "postgres": KindSpec(
        inputs=_SQL | _set("database rows table"),
        required=_SQL_REQUIRED,
        spec=_SQL_SPEC,
        aliases=_SQL_ALIASES,
        exclusive=(_set("command commands query queries sql"),),
    ),
    "sqlite": KindSpec(
        inputs=_SQL | _set("database"),
        required=_SQL_REQUIRED,
        spec=_SQL_SPEC,
        aliases=_SQL_ALIASES,
        exclusive=(_set("command commands query queries sql"),),
    ),
    "noop": KindSpec(inputs=_set("args result message"), maps=_set("args")),
    "store": KindSpec(
        inputs=_set("data key format schema_hint content_type"),
        required=(_set("data"),),
        spec=_set("max_bytes compress"),
    ),
    "secrets": KindSpec(
        inputs=_set("provider project version key region field auth secret args"),
        required=(_set("secret secret_name key"),),
        aliases={"secret_name": "secret"},
        spec=_set("cache_s"),
    ),
    "playbook": KindSpec(
        inputs=_set("path version payload result ctx detach idempotency_key"),
        required=(_set("path"),),
        aliases={"args": "payload", "workload": "payload"},
        maps=_set("payload args ctx"),
        spec=_set("on_cancel"),
        exclusive=(_set("payload args workload"),),
    ),
    "callback": KindSpec(
        inputs=_set("signal timeout heartbeat schema url request message description notify args"),
        maps=_set("schema args"),
    ),
    "wait": KindSpec(
        inputs=_set("duration seconds until result"),
        required=(_set("duration seconds until"),),
        exclusive=(_set("duration seconds until"),),
    ),
    "workbook": KindSpec(inputs=_set("task args")),
    "s3": KindSpec(
        inputs=_set("action bucket key data prefix body content_type auth args version_id"),
        required=(_set("action"),),
        choices={"action": _set("get put list delete head copy")},
    ),
    "quantum": KindSpec(
        inputs=_set("backend circuit shots params auth args"),
        required=(_set("circuit"),),
        maps=_set("params args"),
    ),
}

ENGINE_KINDS: Final = _set("playbook callback wait workbook")
"""Kinds that the engine carries out itself or that normalisation resolves; the others are tools."""

ALL_SPEC: Final = COMMON_SPEC.union(*(k.spec for k in KINDS.values()))
"""Spec keys that an outer scope may default for the tasks below it."""


def canonical_inputs(kind: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """`inputs` with accepted spellings replaced by the canonical names."""
    spec = KINDS.get(kind)
    return dict(inputs) if spec is None else {spec.aliases.get(k, k): v for k, v in inputs.items()}
