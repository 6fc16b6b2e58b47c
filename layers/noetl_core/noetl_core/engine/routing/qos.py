"""`next.spec.policy`: the priority of tokens, and deduplication (canonical step spec 5.5, resolution 30)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from noetl_core.dsl.model import Arc, Router
from noetl_core.dsl.numbers import PRIORITY, value_of
from noetl_core.expr import Scope, load, render
from noetl_core.values.frozen import frozen


@frozen
class Quality:
    """Priority and key of one token: of the tokens that may move, the one with the higher `priority` moves first; `key` is
    None when the router does not deduplicate."""

    priority: float = 0
    key: str | None = None


PLAIN = Quality()


def quality(router: Router, arc: Arc, args: Mapping[str, Any], scope: Scope, epoch: int) -> Quality:
    """Return the properties that a router's policy gives the token of `arc`. `dedupe: true` compares the target and `args`; a
    template compares the target and its value (if it is undefined, the token is not deduplicated). A redrive deduplicates afresh,
    so `epoch` is part of the key. Raises `TemplateError`."""
    if not router.priority and not router.dedupe:
        return PLAIN
    return Quality(value_of(router.priority, PRIORITY, "priority", scope) or 0, _key(router.dedupe, arc, args, scope, epoch))


def _key(dedupe: Any, arc: Arc, args: Mapping[str, Any], scope: Scope, epoch: int) -> str | None:
    if dedupe is None or dedupe is False:
        return None
    value = load(dict(args), scope) if dedupe is True else render(dedupe, scope.unrecorded(), undefined_ok=True, whole=True)
    if value is None:
        return None
    body = json.dumps([epoch, arc.step, value], sort_keys=True, default=str)
    return blake2b(body.encode(), digest_size=12).hexdigest()
