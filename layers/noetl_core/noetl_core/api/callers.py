"""Determines the rights of callers from API Gateway's request context (`docs/access.md`).

Callers with a token have the rights that its scopes and groups name. IAM has already authorized the route of callers who sign.
Their ARNs decide the two rights without a route (`secrets:read`, `executions:inline`). An API without authentication is for an
emulator on one machine, whose user may do everything but read secrets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.api.rights import ANSWERS, INLINE, SECRETS
from noetl_core.events.shapes import MAX_PRINCIPAL, By
from noetl_core.values.frozen import frozen

Caller = Mapping[str, Any]
"""The caller, as API Gateway describes it: its `requestContext`."""

FORMER: Final = {SECRETS: "secrets", ANSWERS: "callbacks"}
"""Former scopes and groups of some rights; still understood."""
AGENTS: Final = {"noetl-cli/": "cli", "noetl-console/": "console", "Mozilla/": "console"}
"""Prefixes of the user agents of clients."""
ANYBODY: Final = "*"
REMEDIES: Final = {
    INLINE: "register the playbook and start it by its path (noetl register, noetl run PATH), or have the right given: the"
    " stack's parameter InlineStarters names roles and users, a token needs the scope or group",
}
"""Remedies for missing rights that nobody has by default."""


@frozen
class Rights:
    """The rules for callers' rights.

    `auth` is the authentication of the API: `IAM`, `JWT` or `NONE`. `readers` and `inliners` are ARNs of roles and users,
    `server` is the resource server whose scopes count.
    """

    auth: str = "NONE"
    readers: frozenset[str] = frozenset()
    inliners: frozenset[str] = frozenset()
    server: str = "noetl"

    @classmethod
    def from_environment(cls) -> Rights:
        """Return the rules of the deployment; by default, IAM is taken to have authorized callers."""
        setting = os.environ
        return cls(
            setting.get("API_AUTH", "IAM"),
            _listed(setting.get("SECRET_READERS", "")),
            _listed(setting.get("INLINE_STARTERS", "")),
            setting.get("SCOPES_OF", "noetl"),
        )

    def __call__(self, caller: Caller, right: str) -> bool | None:
        """Return whether `caller` has `right`; None if IAM allowed the route and nothing else is known."""
        claims = (caller.get("authorizer") or {}).get("claims")
        if isinstance(claims, Mapping):
            return self._by_token(claims, right)
        if self.auth == "JWT":
            return right == ANSWERS  # requests without a token pass the gateway if a callback's token suffices
        arn = _arn(caller)
        if right == SECRETS:
            return arn in self.readers
        if right == INLINE:
            return self.auth == "NONE" or ANYBODY in self.inliners or arn in self.inliners
        return None if arn or self.auth == "IAM" else True

    def _by_token(self, claims: Mapping[str, Any], right: str) -> bool:
        words = {right, FORMER.get(right, right)}
        scopes = {s.removeprefix(f"{self.server}/") for s in str(claims.get("scope") or "").split()}
        return bool(words & (scopes | _groups(claims.get("cognito:groups"))))


def name_of(caller: Caller) -> str:
    """Return the caller, as far as the gateway names it: the name or id in a token, an ARN, or an empty text."""
    claims = (caller.get("authorizer") or {}).get("claims")
    if isinstance(claims, Mapping):
        found = next((claims[k] for k in ("cognito:username", "username", "client_id", "sub") if claims.get(k)), "")
        return str(found)[:MAX_PRINCIPAL]
    return str((caller.get("identity") or {}).get("userArn") or "")[:MAX_PRINCIPAL]


def author_of(event: Mapping[str, Any], user: str = "") -> By:
    """Return the sender of a request, a proxy event, and its client.

    `user` is the user of this machine, if requests come from there alone. The client is named by its user agent: pages and the
    command line name themselves, all others are `api`.
    """
    headers = event.get("headers") or {}
    agent = next((str(value) for name, value in headers.items() if name.lower() == "user-agent"), "")
    source = next((word for begin, word in AGENTS.items() if agent.startswith(begin)), "api")
    principal = name_of(event.get("requestContext") or {}) or user or "anonymous"
    return {"principal": principal[:MAX_PRINCIPAL], "source": source}


def _listed(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def _groups(value: Any) -> set[str]:
    """Return the groups. API Gateway passes them as a list, or as its text."""
    return {str(v) for v in value} if isinstance(value, list) else set(re.findall(r"[^\s,\[\]]+", str(value or "")))


def _arn(caller: Caller) -> str:
    """Return the ARN of a user; for a session, that of its role: `...:assumed-role/NAME/SESSION` becomes `...:role/NAME`."""
    arn = str((caller.get("identity") or {}).get("userArn") or "")
    session = re.fullmatch(r"arn:([\w-]+):sts::(\d+):assumed-role/([^/]+)/.+", arn)
    return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}" if session else arn
