"""W517: secrets that are written in the playbook. The finding never repeats the secret."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.reading.load import Node
from noetl_core.expr import is_template

_SHAPES: Final = (
    ("an AWS access key", re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])")),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40})")),
    ("a Slack token", re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10}")),
    ("an API key", re.compile(r"\b(?:sk|rk)[-_](?:live[-_]|test[-_]|proj-|ant-)?[A-Za-z0-9]{20}")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("a signed token", re.compile(r"\beyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8}")),
    (
        "a URL with a password",
        re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@{}<>$*\"']{0,100}:(?![*x<]{2,})[^\s/@{}<>$*\"']{1,200}@"),
    ),
    ("a bearer token", re.compile(r"^(?:Bearer|Token|Basic)\s+(?=\S*[0-9])[A-Za-z0-9+/=_.~-]{8,}$", re.IGNORECASE)),
)

_HINTS: Final = (
    "AKIA", "ASIA", "PRIVATE KEY", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "sk-", "sk_", "rk-", "rk_",
    "AIza", "eyJ", "earer ", "oken ", "asic ", "BEARER ", "BASIC ", "TOKEN ",
)  # fmt: skip
_USERINFO: Final = re.compile(r"://[^/\s]*@")
"""With `_HINTS`: one search of the whole text is enough for most playbooks, which contain none of these forms."""

_PASSWORD: Final = re.compile(r"(^|_)(password|passwd|passphrase|pwd)$")
_KEY: Final = re.compile(
    r"(^|_)(api_?key|access_?key|secret_?key|private_?key|secret_?access_?key|client_?secret|(access|auth|refresh|bearer|api)_?token|"
    r"token|secret|authorization)$"
)
_NAMES: Final = words("secret token authorization")
"""Keys that may also hold the name of a secret: there the value must look like a secret."""

_PLACEHOLDER: Final = re.compile(
    r"[*x.\-_]*|<.*>|\$\{.*\}|\$[A-Z_]+|(your|my|the)[-_ ].*|.*(change|replace)[-_ ]?me.*|none|null|todo", re.IGNORECASE
)


_LOOKED_AT: Final = 100_000
"""The most characters of one text that are searched."""


def secrets(lint: Lint) -> None:
    """Examine every text of the playbook, program text included."""
    document = lint.r.loaded.text
    shapes = any(hint in document for hint in _HINTS) or ("@" in document and _USERINFO.search(document) is not None)
    kinds: dict[str, str | None] = {}
    stack: list[tuple[Node, str, bool]] = [(lint.root, "", False)]
    while stack:
        node, key, names_only = stack.pop()
        value = node.value
        if isinstance(value, dict):
            kind = value.get("kind")
            inner = names_only or (kind is not None and kind.value == "secrets")
            stack += [(child, name, inner or (name == "keychain" and node is lint.root)) for name, child in value.items()]
        elif isinstance(value, list):
            stack += [(child, key, names_only) for child in value]
        else:
            if key not in kinds:
                kinds[key] = _kind(key)
            if not shapes and kinds[key] is None:
                continue
            text = value if isinstance(value, str) else _number(node)
            what = None if text is None else (shapes and _shape(text)) or _secret_in_value(kinds[key], text, names_only)
            if what:
                hint = "declare a credential: keychain, and read keychain.<name> in a task"
                lint.report("W517", node, f"{what} in plain text", hint)


def _number(node: Node) -> str | None:
    """Return a number as it is written: a password may be one."""
    return node.plain_text if isinstance(node.value, int | float) and not isinstance(node.value, bool) else None


def _shape(text: str) -> str | None:
    if len(text) < 8:
        return None
    return next((what for what, pattern in _SHAPES if pattern.search(text, 0, _LOOKED_AT)), None)


def _kind(key: str) -> str | None:
    """Return the kind of secret that a key's name suggests: `password`, `key`, or `name` if the value may be a secret or only
    name one."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower().replace("-", "_")
    if _PASSWORD.search(name):
        return "password"
    found = _KEY.search(name)
    return None if found is None else "name" if found[2] in _NAMES else "key"


def _secret_in_value(kind: str | None, text: str, names_only: bool) -> str | None:
    """Return the kind of secret in the value of such a key, if it is one."""
    if kind is None or is_template(text) or not text.strip() or _PLACEHOLDER.fullmatch(text.strip()):
        return None
    if kind == "password":
        return "a password"
    return "a secret" if not names_only and _looks_random(text, 8 if kind == "key" else 16) else None


def _looks_random(text: str, least: int) -> bool:
    """Return whether it is one word of mixed letters and digits, not a path and not a name with dots."""
    return (
        len(text) >= least
        and re.fullmatch(r"[A-Za-z0-9+=_\-/]+", text) is not None
        and re.search(r"[0-9]", text) is not None
        and re.search(r"[A-Za-z]", text) is not None
        and text.count("/") < 2
    )
