"""Who may read what credentials hold, and who may answer callbacks, by what API Gateway says of the caller."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from noetl_core.control.api.call import Caller

SCOPE = "secrets"
"""A scope (`secrets`, `<resource server>/secrets`) or a group of a token's that lets its bearer read secrets."""
ANSWERS = "callbacks"
"""The same for seeing, and so answering, callbacks that wait."""


def reads_secrets(readers: str) -> Callable[[Caller], bool]:
    """Whether a caller may, given the ARNs of roles and users (by commas) who may without a token."""
    allowed = {arn.strip() for arn in readers.split(",") if arn.strip()}

    def may(caller: Caller) -> bool:
        return _by_token(caller, SCOPE) or _arn(caller) in allowed

    return may


def may_answer(caller: Caller) -> bool:
    """Whether a caller may see the tokens of callbacks: one who comes with a token of a user pool needs the scope or group
    `callbacks`; to others IAM has allowed the route, or not."""
    return not isinstance((caller.get("authorizer") or {}).get("claims"), Mapping) or _by_token(caller, ANSWERS)


def _by_token(caller: Caller, right: str) -> bool:
    claims = (caller.get("authorizer") or {}).get("claims")
    if not isinstance(claims, Mapping):
        return False
    scopes = str(claims.get("scope") or "").split()
    return any(s.rpartition("/")[2] == right for s in scopes) or right in _groups(claims.get("cognito:groups"))


def _groups(value: Any) -> list[str]:
    """API Gateway hands the groups on as a list, or as its text."""
    return [str(v) for v in value] if isinstance(value, list) else re.findall(r"[^\s,\[\]]+", str(value or ""))


def _arn(caller: Caller) -> str:
    """The user's, or of a session the ARN of its role: `...:assumed-role/NAME/SESSION` is `...:role/NAME`."""
    arn = str((caller.get("identity") or {}).get("userArn") or "")
    session = re.fullmatch(r"arn:([\w-]+):sts::(\d+):assumed-role/([^/]+)/.+", arn)
    return f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}" if session else arn
