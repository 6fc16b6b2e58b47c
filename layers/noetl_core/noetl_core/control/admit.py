"""Admits requests: turns a request into an execution whose first commit is stored (formal specification 4.1; resolutions 26 and
28)."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, cast

from noetl_core.control.catalog.registration import pin as pin
from noetl_core.control.catalog.registration import register as register
from noetl_core.control.catalog.registration import register_to_start
from noetl_core.control.catalog.registration import validated as validated
from noetl_core.control.catalog.versions import Playbooks, check_not_deleted, resolve
from noetl_core.control.core import Control
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.versions import Version
from noetl_core.engine import ids
from noetl_core.engine.decide import Decision, NewExecution, start
from noetl_core.engine.needs import Need, NeedValues, TooMuch, Unreadable
from noetl_core.engine.records import OwnWorker
from noetl_core.engine.state import caller_of
from noetl_core.engine.warnings import blanks_of
from noetl_core.engine.workload import check_inputs, doubts, rendered_defaults
from noetl_core.events.shapes import By, Parent, RequestKey, Triggered
from noetl_core.expr import LimitExceeded, TemplateError, is_reference
from noetl_core.expr.scope import Blanks, Resolve
from noetl_core.log.stored_values import Values
from noetl_core.ports import Conflict, NotFound, PlaybookVersion, StorageFailed, Unavailable
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND
from noetl_core.values.mappings import deep_merge

log = logging.getLogger(__name__)


class UnknownPool(ValueError):
    """A step names a pool that does not exist (HTTP 422). Who acts: the author, or the operator who deploys pools."""


class KeyReused(Exception):
    """The idempotency key was used before with a different request (HTTP 409). Who acts: the caller."""


class KeyReserved(KeyReused):
    """The idempotency key is one of those that the engine derives for occurrences and backfills (HTTP 409). Who acts: the
    caller."""


@frozen
class StartRequest:
    """A request to start an execution: by `path` and `version`, by `digest`, or with the text of the playbook in `playbook`."""

    path: str | None = None
    version: Version = None
    digest: str | None = None
    playbook: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    ctx: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    parent: Mapping[str, Any] | None = None
    trace_id: str | None = None
    execution_id: str | None = None
    """Set for children only; otherwise it is created here."""
    derived_key: bool = False
    """True if the engine derived the idempotency key."""
    trigger: Triggered | None = None
    """The trigger that starts it; None for requests of callers."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels, by which lists find it (`views.executions.labels`)."""
    priority: float | None = None
    """Priority among waiters for a limit; None: as the playbook says."""
    strict: bool = False
    """Makes the execution strict, even if neither the playbook nor the stack does."""
    registers: bool = True
    """If true, a playbook passed as text becomes the latest version of its path, because the caller may register playbooks.

    Otherwise, it is only pinned.
    """

    by: By | None = None
    """The starter; None: the principal for whom the control plane acts."""

    def fingerprint(self) -> str:
        """Return a digest that is equal for equal requests with the same idempotency key."""
        body: dict[str, Any] = {
            "path": self.path,
            "version": self.version,
            "digest": self.digest,
            "playbook": self.playbook,
            "payload": self.payload,
            "ctx": self.ctx,
        }
        if self.labels:  # requests without them keep their older fingerprints
            body["labels"] = self.labels
        if self.priority is not None and caller_of(self.parent) is None:  # a child's is that of its caller
            body["priority"] = self.priority
        if self.strict and caller_of(self.parent) is None:
            body["strict"] = True
        return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


@frozen
class Started:
    """An admitted execution; `created` is False when an earlier request with the same key had started it."""

    execution_id: str
    status: str
    playbook: PlaybookVersion
    created: bool
    warnings: tuple[str, ...] = ()
    """Probable mistakes in the payload: keys that the workload lacks, and types other than those of the defaults."""


def check_pools(control: Control, playbook: Playbook) -> None:
    """Raise `UnknownPool` if a step would run in a pool that does not exist.

    No other pool may replace it, because a pool decides the permissions of its workers.
    """
    for step in playbook.steps:
        if control.pools is not None and step.pool not in control.pools:
            hint = suggest(step.pool, control.pools) or f"there are: {', '.join(sorted(control.pools))}"
            raise UnknownPool(f"step {step.name} names pool {step.pool!r}, which does not exist ({hint})")


def admit(control: Control, request: StartRequest, own: OwnWorker | None = None) -> Started:
    """Pin the playbook, write the first commit with the first routing pass, and send the first commands. Runs that `own` accepts
    are claimed for it.

    Raises `InvalidPlaybook`, `NotFound` (no such playbook; `Deleted`), `UnknownPool`, `BadWorkload`, `KeyReused`, `Unavailable`.
    A rejected request leaves nothing behind.
    """
    execution_id, key = _identity(control, request)
    started = None if key is None else _same_request(control, execution_id, key)
    if started is None:
        version = _resolve(control, request, execution_id)
        playbook = control.playbook(version.digest)
        check_pools(control, playbook)
        new = _new_execution(control, request, playbook, version, execution_id, key)
        now = control.clock.now()
        started = _commit(control, new, version, _decide(control, playbook, new, now, own), now)
    return replace(started, warnings=tuple(doubts(control.playbook(started.playbook.digest), request.payload)))


def _identity(control: Control, request: StartRequest) -> tuple[str, RequestKey | None]:
    """Return the id of the requested execution, and its idempotency key."""
    if request.idempotency_key is not None:
        if ids.is_derived(request.idempotency_key) and not request.derived_key:
            begin = request.idempotency_key.partition(":")[0]
            raise KeyReserved(f"an idempotency key that begins with {begin}: is reserved for the engine: choose another one")
        key: RequestKey = {"key": request.idempotency_key, "fingerprint": request.fingerprint()}
        return ids.execution_id_from_key(request.idempotency_key), key
    return request.execution_id or ids.execution_id_at(control.clock.now(), secrets.randbits(21)), None


def _new_execution(
    control: Control,
    request: StartRequest,
    playbook: Playbook,
    version: PlaybookVersion,
    execution_id: str,
    key: RequestKey | None,
) -> NewExecution:
    strict = request.strict or strict_by_default(control, playbook)
    blanks: Blanks = {}
    new = NewExecution(
        execution_id=execution_id,
        path=version.path,
        version=version.version,
        payload=request.payload,
        ctx=request.ctx,
        rendered=_rendered(control, playbook, request, execution_id, strict=strict, blanks=blanks),
        parent=cast("Parent", {k: str(v) for k, v in request.parent.items()}) if request.parent else None,
        key=key,
        trace_id=request.trace_id,
        trigger=request.trigger,
        labels=request.labels,
        priority=request.priority,
        strict=strict,
        by=request.by or control.by,
    )
    return replace(new, undefined=blanks_of(blanks))


def strict_by_default(control: Playbooks, playbook: Playbook) -> bool:
    """Return whether the playbook's executions are strict by default: according to the playbook, or else to the stack."""
    return control.strict if playbook.executor.strict is None else playbook.executor.strict


def _rendered(
    control: Control, playbook: Playbook, request: StartRequest, execution_id: str, *, strict: bool, blanks: Blanks
) -> dict[str, Any]:
    """Return the values of the templates among the defaults, after checking the whole workload. Raises `BadWorkload`."""
    family = caller_of(request.parent) or execution_id
    values = Values(control.store, control.results, family)
    with control.evaluating(execution_id):
        resolve = loading(values)
        return settled_inputs(playbook, request.payload, execution_id, resolve, request.trigger, strict=strict, blanks=blanks)


def settled_inputs(
    playbook: Playbook,
    payload: Mapping[str, Any],
    execution_id: str,
    resolve: Resolve,
    trigger: Triggered | None = None,
    *,
    strict: bool = False,
    blanks: Blanks | None = None,
) -> dict[str, Any]:
    """Return the values of the templates among `playbook`'s defaults under `payload`; `resolve` loads the references in it.

    Raises `BadWorkload` if they cannot be rendered, or if the workload does not conform to the playbook's `x-schema`.
    """
    rendered = rendered_defaults(playbook, payload, execution_id, resolve, trigger, strict=strict, blanks=blanks)
    if playbook.inputs is not None:
        workload = deep_merge(deep_merge(playbook.workload, payload), rendered)
        check_inputs(playbook, _looked_into(workload, playbook.inputs, resolve))
    return rendered


def loading(values: Values) -> Resolve:
    """Return a function that loads references for templates rendered at admission."""

    def resolve(ref: Any) -> Any:
        value = values(("object", ref["key"], ref))
        if isinstance(value, TooMuch):
            raise LimitExceeded(f"the template reads {value.size} bytes through one reference; pass only the parts it needs")
        if isinstance(value, Unreadable):
            raise TemplateError(value.reason)
        return value

    return resolve


def _looked_into(value: Any, schema: Mapping[str, Any], resolve: Callable[[Any], Any]) -> Any:
    """Return `value` with references replaced where `schema` describes their content, so that checks do not depend on the size of
    a value."""
    if not schema:
        return value
    if is_reference(value):
        value = resolve(value)
    if isinstance(value, Mapping) and "properties" in schema:
        return {k: _looked_into(v, schema["properties"].get(k) or {}, resolve) for k, v in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [_looked_into(item, schema["items"], resolve) for item in value]
    return value


def _resolve(control: Control, request: StartRequest, execution_id: str) -> PlaybookVersion:
    if request.playbook is not None:
        source, playbook = validated(control, request.playbook)
        check_pools(control, playbook)
        return register_to_start(control, source, playbook) if request.registers else pin(control, source, playbook)
    if request.digest is not None:
        found = control.catalog.by_digest(request.digest)
        if found.version == 0:
            raise NotFound(f"the playbook with digest {request.digest} is not registered: it was only started by its text")
        check_not_deleted(control, found.path)
        return found
    if request.path is None:
        raise NotFound("the request has no playbook: pass its path, its digest or its text")
    found = resolve(control, request.path, request.version, execution_id)
    check_not_deleted(control, request.path)
    return found


def _same_request(control: Control, execution_id: str, key: RequestKey) -> Started | None:
    """Return the execution that an earlier request with the same key started, with the playbook it pinned. Raises `KeyReused`."""
    state = control.load(execution_id)
    if state.seq < 0:
        return None
    if state.key is not None and state.key["key"] == key["key"] and state.key["fingerprint"] == key["fingerprint"]:
        source = control.catalog.by_digest(state.digest)
        version = replace(source, path=state.path, version=state.version)
        return Started(execution_id, state.status, version, created=False)
    raise KeyReused(f"idempotency key {key['key']!r} was used for another request (execution {execution_id})")


def _decide(control: Control, playbook: Playbook, new: NewExecution, now: int, own: OwnWorker | None) -> Decision:
    """Return the first commit, with the first routing pass."""
    new = replace(new, expires_at=int(now / SECOND + playbook.executor.lifetime_s + control.retention_s))
    values: dict[Need, Any] = {}
    of = caller_of(new.parent) or new.execution_id  # the family of an execution that has no log yet
    fetch = Values(control.store, control.results, of)
    while True:
        try:
            with control.evaluating(new.execution_id):
                return start(playbook, new, now, values, control.deadline.check, own)
        except NeedValues as missing:  # a payload may contain references
            fetch.supply(values, missing)


def _commit(control: Control, new: NewExecution, version: PlaybookVersion, decision: Decision, now: int) -> Started:
    """Write the first commit and carry out its effects. If another request was faster, return its execution."""
    control.due_soon(new.execution_id, now)
    try:
        control.commit(decision)
    except Conflict:
        if new.key is not None and (known := _same_request(control, new.execution_id, new.key)) is not None:
            return known
        state = control.load(new.execution_id)
        if new.key is None and new.parent is not None and state.parent == new.parent:
            return Started(new.execution_id, state.status, version, created=False)
        raise
    _go_on(control, decision)
    return Started(new.execution_id, decision.state.status, version, created=True)


def _go_on(control: Control, decision: Decision) -> None:
    """Carry out the effects of the first commit.

    The execution has started by then: a caller who tries again without an idempotency key would start a second one. So the router
    or the sweeper repairs failures of services here.
    """
    execution_id = decision.state.execution_id
    try:
        control.conclude(decision)
    except StorageFailed:
        raise  # local storage failed: no other process would continue it
    except Unavailable as error:
        log.warning("execution %s is started; the router continues it: %s", execution_id, error)
        with suppress(Unavailable):
            control.queue.wake(execution_id)
