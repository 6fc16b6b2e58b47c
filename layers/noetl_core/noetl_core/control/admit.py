"""Admit: from a request to an execution whose first commit stands (formal spec 4.1, resolutions 26 and 28)."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from noetl_core.control.core import Control
from noetl_core.dsl.diagnostics import suggest
from noetl_core.dsl.model import Playbook
from noetl_core.engine import ids
from noetl_core.engine.decide import NewExecution, start
from noetl_core.engine.passes import Need, NeedValues, TooMuch, Unreadable
from noetl_core.engine.state import caller_of
from noetl_core.engine.workload import check_inputs, doubts, rendered_defaults
from noetl_core.expr import LimitExceeded, TemplateError, is_reference
from noetl_core.instants import SECOND
from noetl_core.mappings import deep_merge
from noetl_core.ports import Conflict, NotFound, PlaybookVersion
from noetl_core.values import Values


class UnknownPool(ValueError):
    """A step asks for a pool that is not there (HTTP 422). Who acts: the author, or who deploys."""


class KeyReused(Exception):
    """The idempotency key was used before with another request (HTTP 409). Who acts: the caller."""


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A request to start: by `path` and `version`, by `digest`, or with the playbook's own text in `playbook`."""

    path: str | None = None
    version: int | None = None
    digest: str | None = None
    playbook: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    ctx: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    parent: Mapping[str, Any] | None = None
    trace_id: str | None = None
    execution_id: str | None = None
    """Given for children only; otherwise made here."""
    registers: bool = True
    """Whether a playbook given by its text becomes the latest version of its path: its caller may register playbooks. Otherwise
    it is pinned, and is no playbook of that path."""

    def fingerprint(self) -> str:
        """What must be equal for the same key to mean the same request."""
        body = {
            "path": self.path,
            "version": self.version,
            "digest": self.digest,
            "playbook": self.playbook,
            "payload": self.payload,
            "ctx": self.ctx,
        }
        return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Started:
    """An admitted execution; `created` is False when the same key had started it before."""

    execution_id: str
    status: str
    playbook: PlaybookVersion
    created: bool
    warnings: tuple[str, ...] = ()
    """What looks like a slip in the payload: keys the workload does not know, types other than the defaults'."""


def register(control: Control, source: str, name: str = "<playbook>") -> tuple[Playbook, PlaybookVersion]:
    """Validate and register a playbook under its `metadata.path`. Raises `InvalidPlaybook`."""
    playbook = control.playbook.parse(source, name)
    return playbook, control.catalog.register(playbook.path, playbook.digest, source, control.clock.now())


def pin(control: Control, source: str) -> PlaybookVersion:
    """Validate a playbook and keep it for whoever names its digest, under no path. Raises `InvalidPlaybook`."""
    playbook = control.playbook.parse(source)
    return control.catalog.pin(playbook.path, playbook.digest, source, control.clock.now())


def check_pools(control: Control, playbook: Playbook) -> None:
    """Raises `UnknownPool` where a step would run in a pool that is not there: nothing else may take its place, since a pool is
    what its workers may do."""
    for step in playbook.steps:
        if control.pools is not None and step.pool not in control.pools:
            hint = suggest(step.pool, control.pools) or f"there are: {', '.join(sorted(control.pools))}"
            raise UnknownPool(f"step {step.name} asks for the pool {step.pool!r}, which is not here ({hint})")


def admit(control: Control, request: StartRequest) -> Started:
    """Pin the playbook, write the first commit with the first routing pass, send the first commands.

    Raises `InvalidPlaybook`, `NotFound` (no such playbook), `UnknownPool`, `BadWorkload`, `KeyReused`, `Unavailable`. What was
    refused leaves nothing behind.
    """
    version = _resolve(control, request)
    playbook = control.playbook(version.digest)
    check_pools(control, playbook)
    started = _admit(control, request, playbook, version)
    return replace(started, warnings=tuple(doubts(playbook, request.payload)))


def _admit(control: Control, request: StartRequest, playbook: Playbook, version: PlaybookVersion) -> Started:
    key = None
    execution_id = request.execution_id
    if request.idempotency_key is not None:
        key = {"key": request.idempotency_key, "fingerprint": request.fingerprint()}
        execution_id = ids.execution_id_from_key(request.idempotency_key)
        known = _same_request(control, execution_id, key, version)
        if known is not None:
            return known
    execution_id = execution_id or ids.execution_id_at(control.clock.now(), secrets.randbits(21))
    new = NewExecution(
        execution_id=execution_id,
        path=version.path,
        version=version.version,
        payload=request.payload,
        ctx=request.ctx,
        rendered=_rendered(control, playbook, request, execution_id),
        parent={k: str(v) for k, v in request.parent.items()} if request.parent else None,
        key=key,
        trace_id=request.trace_id,
    )
    return _first_commit(control, playbook, version, new)


def _rendered(control: Control, playbook: Playbook, request: StartRequest, execution_id: str) -> dict[str, Any]:
    """What templates among the defaults give, once the whole workload has been found fit. Raises `BadWorkload`."""
    family = caller_of(request.parent) or execution_id
    return settled_inputs(playbook, request.payload, execution_id, Values(control.store, control.results, family))


def settled_inputs(playbook: Playbook, payload: Mapping[str, Any], execution_id: str, values: Values) -> dict[str, Any]:
    """What templates among `playbook`'s defaults give under `payload`, whose references `values` loads.

    Raises `BadWorkload` where they cannot be rendered, or where the workload is not what the playbook's `x-schema` asks for.
    """

    def resolve(ref: Any) -> Any:
        value = values(("object", ref["key"], ref))
        if isinstance(value, TooMuch):
            raise LimitExceeded(f"it reads {value.size} bytes behind one reference; pass on what it needs")
        if isinstance(value, Unreadable):
            raise TemplateError(value.reason)
        return value

    rendered = rendered_defaults(playbook, payload, execution_id, resolve)
    if playbook.inputs is not None:
        workload = deep_merge(deep_merge(playbook.workload, payload), rendered)
        check_inputs(playbook, _looked_into(workload, playbook.inputs, resolve))
    return rendered


def _looked_into(value: Any, schema: Mapping[str, Any], resolve: Callable[[Any], Any]) -> Any:
    """`value` with what its references stand for, as far as `schema` says something of them: a size has no part in a check."""
    if not schema:
        return value
    if is_reference(value):
        value = resolve(value)
    if isinstance(value, Mapping) and "properties" in schema:
        return {k: _looked_into(v, schema["properties"].get(k) or {}, resolve) for k, v in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [_looked_into(item, schema["items"], resolve) for item in value]
    return value


def _resolve(control: Control, request: StartRequest) -> PlaybookVersion:
    if request.playbook is not None:
        check_pools(control, control.playbook.parse(request.playbook))
        return register(control, request.playbook)[1] if request.registers else pin(control, request.playbook)
    if request.digest is not None:
        found = control.catalog.by_digest(request.digest)
        if found.version == 0:
            raise NotFound(f"the playbook with digest {request.digest} is not registered: it was only started by its text")
        return found
    if request.path is None:
        raise NotFound("a request names a playbook by path, digest or its text")
    return control.catalog.get(request.path, request.version)


def _same_request(control: Control, execution_id: str, key: Mapping[str, str], version: PlaybookVersion) -> Started | None:
    state = control.load(execution_id)
    if state.seq < 0:
        return None
    if state.key is not None and state.key["key"] == key["key"] and state.key["fingerprint"] == key["fingerprint"]:
        return Started(execution_id, state.status, version, created=False)
    raise KeyReused(f"idempotency key {key['key']!r} was used for another request (execution {execution_id})")


def _first_commit(control: Control, playbook: Playbook, version: PlaybookVersion, new: NewExecution) -> Started:
    now = control.clock.now()
    new = replace(new, expires_at=int(now / SECOND + playbook.executor.lifetime_s + control.retention_s))
    values: dict[Need, Any] = {}
    of = caller_of(new.parent) or new.execution_id  # the family of what has no log yet
    fetch = Values(control.store, control.results, of)
    while True:
        try:
            decision = start(playbook, new, now, values)
            break
        except NeedValues as missing:  # a payload may hold references
            fetch.supply(values, missing)
    control.due_soon(new.execution_id, now)
    try:
        control.commit(decision)
    except Conflict:
        if new.key is None:
            state = control.load(new.execution_id)
            if new.parent is not None and state.parent == new.parent:
                return Started(new.execution_id, state.status, version, created=False)
            raise
        known = _same_request(control, new.execution_id, new.key, version)
        if known is None:
            raise
        return known
    control.conclude(decision)
    return Started(new.execution_id, decision.state.status, version, created=True)
