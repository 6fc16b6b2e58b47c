"""Answers requests to webhooks.

Signed requests are passed on; all others get the same answer and leave no trace (docs/triggers.md). A request to a webhook that
does not exist is handled like a wrong signature, with the same work: its trigger is read, a secret is read, the body is signed.
So neither the answer nor its duration reveals which webhooks exist.
"""

from __future__ import annotations

import logging
import secrets as random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from http import HTTPStatus
from math import ceil
from threading import Lock
from typing import Any, Final, Protocol

from cachetools import LRUCache

from noetl_core.aws.event_patterns import matches
from noetl_core.control.triggers.signatures import DECOY, is_signed, scheme_of
from noetl_core.control.triggers.webhooks import challenge_of, delivery_id, event_of
from noetl_core.dsl.sources import CREDENTIALS, Webhook
from noetl_core.engine import ids
from noetl_core.engine.limits.rates import RequestPace
from noetl_core.ports import (
    Clock,
    Forbidden,
    NotFound,
    PathRecord,
    ReadsSecrets,
    RequestRates,
    TooLarge,
    TriggerRecord,
    Unavailable,
    WebhookDelivery,
    WebhookSink,
)
from noetl_core.values.frozen import frozen
from noetl_core.values.instants import SECOND

log = logging.getLogger(__name__)

ROUTE: Final = "/api/hooks/"
"""Prefix of webhook addresses; a playbook's path and a webhook's name follow."""
MAX_BODY: Final = 4 * 1024 * 1024
"""Maximum size of a request's body in bytes: API Gateway's limit, less a third for base64."""
MAX_PART: Final = 512
"""Maximum size in bytes of a path (the limit for playbooks) and of a name."""
TOO_LARGE: Final = f"a body has {MAX_BODY // 1024**2} MB ({MAX_BODY:,} bytes) at most"
MAX_AGE_S: Final = 60
"""Maximum age of a cached secret: a replacement is in use after a minute."""
MISSING_AGE_S: Final = 5
"""Maximum age of a cached miss of a credential: the credential may be created soon."""
MOST_SECRETS: Final = 3
"""Maximum number of secrets of a webhook: two or more only while they are changed."""
MOST_KEPT: Final = 1_000
"""Maximum number of webhooks whose secrets a process caches, including those that do not exist."""
RATE: Final = 20.0
"""Signed requests per second of one webhook, by default."""
NOBODY: Final = {"code": "unauthorized", "message": "no webhook has this address and this signature"}


Find = Callable[[str, str], TriggerRecord | None]
"""Returns the trigger of a path and a name."""


Check = Callable[[TriggerRecord, WebhookDelivery], Mapping[str, Any] | None]
"""Returns the error for a request with which a playbook cannot start; None if it can."""


class About(Protocol):
    """Returns the record of a path; with `fresh=False`, possibly a few seconds old."""

    def __call__(self, path: str, *, fresh: bool = True) -> PathRecord: ...


@frozen
class Answer:
    """The answer to a sender."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Kept:
    read_at: int
    credential: str
    secrets: Sequence[bytes]


@dataclass
class Hooks:
    """Answers requests; `find` reads triggers. Thread-safe."""

    find: Find
    secrets: ReadsSecrets
    sink: WebhookSink
    clock: Clock
    about: About
    check: Check
    """Called for webhooks with `respond: validated` alone."""
    rates: RequestRates
    rate: float = RATE
    """Signed requests per second of a webhook without a rate of its own."""
    paths_required: bool = False
    """If true, webhooks may not use a credential without paths. True on a stack."""
    kept: LRUCache[tuple[str, str], _Kept] = field(default_factory=lambda: LRUCache(MOST_KEPT))
    """Secrets by webhook. The key is the webhook and not the credential, so that webhooks that do not exist are read as often."""
    _lock: Lock = field(default_factory=Lock)

    def answer(self, path: str, name: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer a request; never raises for errors of a sender or a service. `headers` have names in any case."""
        if len(body) > MAX_BODY:
            return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", TOO_LARGE)
        lower = {key.lower(): value for key, value in headers.items()}
        try:
            return self._answer(path, name, lower, body)
        except Unavailable as error:
            log.error("webhook %s of %s cannot be answered now: %s", name[:200], path[:200], error)
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "try again later")
        except TooLarge:
            return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", f"the request is too large: {TOO_LARGE}")

    def _answer(self, path: str, name: str, headers: Mapping[str, str], body: bytes) -> Answer:
        path, name = _short(path), _short(name)
        found = self.find(path, name)
        hook = found if found is not None and found.kind == Webhook.kind else None
        known = self._secrets(path, name, hook)
        scheme = DECOY if hook is None else scheme_of(hook.source)
        signed = is_signed(scheme, headers, body, known or [random.token_bytes(32)], self.clock.now() / SECOND)
        if hook is None or not signed:
            return Answer(HTTPStatus.UNAUTHORIZED, {"error": {**NOBODY, "details": []}})
        wait_s = self._wait_s(hook)
        if wait_s:
            return _over_rate(hook, wait_s)
        event = event_of(hook.source, headers, body)
        challenge = challenge_of(hook.source, event)
        if challenge is not None:
            return Answer(HTTPStatus.OK, challenge)
        if self._is_deleted(path):
            return _refused(HTTPStatus.GONE, "deleted", f"the playbook {path} is deleted: nothing starts from it")
        if not hook.enabled:
            return _refused(HTTPStatus.CONFLICT, "disabled", f"the trigger {name} of {path} is disabled")
        pattern = hook.source["match"]
        if pattern and not matches(pattern, event):
            return Answer(HTTPStatus.ACCEPTED, {"status": "ignored"})
        delivery = WebhookDelivery(path, name, delivery_id(hook.source, headers, event, body), event, self.clock.now())
        if hook.source.get("respond") == "validated" and (wrong := self.check(hook, delivery)) is not None:
            log.warning("webhook %s of %s refuses %s: %s", name, path, delivery.id, wrong["code"])  # not part of the body
            return Answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": wrong})
        self.sink.forward(delivery)
        started = ids.execution_id_from_key(ids.occurrence_key(path, name, delivery.id))
        return Answer(HTTPStatus.ACCEPTED, {"status": "accepted", "delivery": delivery.id, "execution_id": started})

    def _wait_s(self, hook: TriggerRecord) -> int:
        """Return the seconds until a webhook takes another request, 0 if it takes this one. Only signed requests count: others
        cannot use up the rate of a sender."""
        pace = RequestPace(hook.source.get("rate") or self.rate)
        wait = self.rates.take(f"{hook.path}/{hook.name}", pace.interval, pace.burst, self.clock.now())
        return ceil(wait / SECOND)

    def _is_deleted(self, path: str) -> bool:
        """Return whether nothing starts from a playbook.

        A playbook deleted some seconds ago may still start. A restored one starts at once, because some senders never retry after
        the answer "gone".
        """
        return self.about(path, fresh=False).deleted_at is not None and self.about(path).deleted_at is not None

    def _secrets(self, path: str, name: str, hook: TriggerRecord | None) -> Sequence[bytes]:
        """Return the secrets of a webhook, read within the last `MAX_AGE_S`; none if its credential is missing or contains no
        secret. For a webhook that does not exist, a credential that does not exist is read, as often as the credential of one
        that exists."""
        key, now = (path, name), self.clock.now()
        credential = _nobodys(path, name) if hook is None else str(hook.source["credential"])
        with self._lock:
            kept = self.kept.get(key)
        if kept is not None and kept.credential == credential:
            lasts_s = MAX_AGE_S if kept.secrets or hook is None else MISSING_AGE_S
            if 0 <= now - kept.read_at < lasts_s * SECOND:
                return kept.secrets
        try:
            if not credential.startswith(CREDENTIALS):
                raise NotFound(f"credential {credential!r} is not for webhooks: its name must begin with {CREDENTIALS}")
            found = secrets_of(credential, self.secrets.get(credential), path, paths_required=self.paths_required)
        except (NotFound, Forbidden) as error:
            found = []
            if hook is not None:
                log.error("webhook %s of %s rejects every request: %s", name, path, error)
        with self._lock:
            self.kept[key] = _Kept(now, credential, found)
        return found


def secrets_of(name: str, credential: Mapping[str, Any], path: str, *, paths_required: bool = False) -> list[bytes]:
    """Return the secrets in a credential for webhooks of the playbook `path`: `data.secret`, one or a list of alternatives.

    Raises `NotFound` for another shape, `Forbidden` if it is for other playbooks.
    """
    paths = credential.get("paths")
    if paths is None and paths_required:
        remedy = f"noetl credentials put {name} --data @FILE --paths {path} --on stack"
        raise Forbidden(f"credential {name!r} does not name the playbooks that may use it: {remedy}")
    if paths is not None and not (isinstance(paths, list) and any(isinstance(p, str) and fnmatchcase(path, p) for p in paths)):
        raise Forbidden(f"credential {name!r} may be used by other playbooks only: its paths do not match {path}")
    data = credential.get("data", credential)
    secret = data.get("secret") if isinstance(data, Mapping) else None
    listed = secret if isinstance(secret, list) else [secret]
    texts = [text for text in listed if isinstance(text, str) and text]
    if not texts or len(texts) < len(listed) or len(texts) > MOST_SECRETS:
        raise NotFound(
            f"credential {name!r} contains no secret: its field secret must be a text, or a list of at most {MOST_SECRETS}"
        )
    return [text.encode() for text in texts]


def _over_rate(hook: TriggerRecord, wait_s: int) -> Answer:
    log.warning("webhook %s of %s is over its rate; a request was refused and may be sent again", hook.name, hook.path)
    refused = _refused(
        HTTPStatus.TOO_MANY_REQUESTS,
        "over_rate",
        f"the webhook takes no more requests for {wait_s} s: send this one again after that",
    )
    return Answer(refused.status, refused.body, {"Retry-After": str(wait_s)})


def _short(text: str) -> str:
    """Return a part of an address as a cache key.

    An invalid path or name is replaced by its digest, which is not a valid one either.
    """
    body = text.encode("utf-8", "surrogatepass")
    whole = len(body) <= MAX_PART and body == text.encode("utf-8", "replace")
    return text if whole else sha256(body).hexdigest()


def _nobodys(path: str, name: str) -> str:
    """Return the name of a credential that does not exist. It differs by webhook, as names of existing credentials do."""
    return f"{CREDENTIALS}none-{sha256(f'{path}:{name}'.encode()).hexdigest()[:32]}"


def _refused(status: HTTPStatus, code: str, message: str) -> Answer:
    return Answer(status, {"error": {"code": code, "message": message, "details": []}})
