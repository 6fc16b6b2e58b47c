"""Taking secrets out of what a tool answers: the texts that went in, and their usual disguises (RELIABILITY P5, I10)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, quote_plus

from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret, reveal

MASK: Final = "***"
SHORTEST: Final = 4
"""A secret shorter than this cannot be told from ordinary text."""
SHORTEST_WORD: Final = 8
"""A word of a secret text (`Bearer <token>`) counts on its own from this length."""

PUBLIC_FIELDS: Final = frozenset(
    {
        "type",
        "kind",
        "name",
        "host",
        "hostname",
        "port",
        "user",
        "username",
        "login",
        "dbname",
        "database",
        "schema",
        "sslmode",
        "in",
    }
    | {
        "driver",
        "scheme",
        "header",
        "header_name",
        "region",
        "provider",
        "project",
        "account",
        "role_name",
        "warehouse",
        "base_url",
    }
    | {"description", "tags"}
)
"""Fields of a credential that say where and as whom, not with what."""


_ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes})


def holds_secret(value: Any) -> bool:
    """Whether a `Secret` is anywhere in `value`. Called for every call, on pages of rows too: no recursion, no copies."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, Secret):
            return True
        if isinstance(one, Mapping):
            stack.extend([v for v in one.values() if type(v) not in _ATOMS])
        elif isinstance(one, list | tuple):
            stack.extend([v for v in one if type(v) not in _ATOMS])
    return False


class Scrubber:
    """Knows the secret texts of one call and masks them in values."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._ordered: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._texts)

    def learn_secrets(self, value: Any) -> None:
        """Every `Secret` within `value` must not come back."""
        if isinstance(value, Secret):
            self.learn(reveal(value))
        elif isinstance(value, Mapping):
            for item in value.values():
                self.learn_secrets(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.learn_secrets(item)

    def learn(self, value: Any) -> None:
        """`value`, a secret or a credential with its fields, must not come back."""
        if isinstance(value, Mapping):
            if isinstance(value.get("password"), str):
                user = value.get("username", value.get("user", ""))
                self._texts.add(base64.b64encode(f"{user}:{value['password']}".encode()).decode())
            for key, item in value.items():
                if key not in PUBLIC_FIELDS:
                    self.learn(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.learn(item)
        elif isinstance(value, bytes):
            self._text(value.decode("latin-1"))
        elif isinstance(value, str):
            self._text(value)
            for line in value.splitlines():  # what a task prints is logged line by line
                if len(line.strip()) >= SHORTEST_WORD:
                    self._text(line.strip())
            for word in value.split():
                if len(word) >= SHORTEST_WORD:
                    self._text(word)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._text(str(value))
        self._ordered = sorted(self._texts, key=len, reverse=True)

    def _text(self, text: str) -> None:
        if len(text) < SHORTEST:
            return
        raw = text.encode("utf-8", "surrogatepass")
        encoded = base64.b64encode(raw).decode()
        self._texts |= {
            text,
            text[::-1],
            quote(raw, safe=""),
            quote_plus(raw),
            raw.hex(),
            raw.hex().upper(),
            encoded,
            encoded.rstrip("="),
        }
        self._texts.add(base64.urlsafe_b64encode(raw).decode().rstrip("="))
        escaped = text.encode("unicode_escape").decode()
        self._texts |= {escaped, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")}

    def text(self, text: str) -> str:
        """`text` with every known secret masked."""
        for secret in self._ordered:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def value(self, value: Any) -> Any:
        """`value` with every known secret masked, in keys too; `Secret` values stay wrapped."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(k) if isinstance(k, str) else k: self.value(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(v) for v in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._texts:
            return MASK
        return value

    def outcome(self, outcome: Outcome) -> Outcome:
        """`outcome` without a secret in result, error or helpers."""
        error = outcome.error
        if error is not None:
            code = self.value(error.code) if isinstance(error.code, str) else error.code
            error = replace(error, message=self.text(error.message), code=code, details=self.value(error.details))
        return replace(outcome, result=self.value(outcome.result), error=error, helpers=self.value(outcome.helpers))
