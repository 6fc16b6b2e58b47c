"""Masks secrets in the answers of tools: the secret texts of the inputs, in the forms in which they appear by accident.

This protects against accidents (an echo, an error message, a log line, an encoded header), not against an author who wants to
leak a secret: whoever may use a credential may send it anywhere. The paths of the credential, and the right to register
playbooks, decide who may use it (docs/access.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret, reveal
from noetl_core.expr.secret import MASK
from noetl_core.tools.shapes import LONG, Shape, basic, lowered, shapes_of

SHORTEST: Final = 4
"""A secret shorter than this cannot be distinguished from ordinary text."""
LONGEST_LIST: Final = 100_000
"""The most items of a list that are examined together, as the characters of a text."""

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
        "model",
        "price",
    }
    | {"description", "tags"}
    | {
        "token_url",
        "token_endpoint",
        "endpoint",
        "client_id",
        "grant_type",
        "client_auth",
        "scope",
        "scopes",
        "audience",
        "method",
    }
    | {"token_field", "expires_field", "service"}
)
"""Fields of a credential with the address and the user; they are not secrets."""


_ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes})


def holds_secret(value: Any) -> bool:
    """Return whether `value` contains a `Secret`. It is called for every call, also with pages of rows, so it neither recurses
    nor copies."""
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
        self._short: set[str] = set()
        self._long: dict[str, Shape] = {}
        self._blocks: list[str] = []
        """Texts of which a long value must contain one to need masking."""

    def __bool__(self) -> bool:
        return bool(self._short or self._long)

    def learn_secrets(self, value: Any) -> None:
        """Add every `Secret` in `value` to what is masked."""
        if isinstance(value, Secret):
            self.learn(reveal(value))
            for read in value.made_of:
                self.learn(reveal(read))
        elif isinstance(value, Mapping):
            for item in value.values():
                self.learn_secrets(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.learn_secrets(item)

    def learn(self, value: Any) -> None:
        """Add `value`, a secret or a credential with its fields, to what is masked."""
        if isinstance(value, Mapping):
            if isinstance(value.get("password"), str):
                self._add([basic(value.get("username", value.get("user", "")), value["password"])], parts=False)
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
            for part in (*value.splitlines(), *value.split()):  # output is logged line by line; `Bearer <token>`
                if LONG <= len(part.strip()) < len(value):
                    self._text(part.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._text(str(value))

    def _text(self, text: str) -> None:
        if len(text) >= SHORTEST:
            shapes = shapes_of(text)
            self._add(shapes.broken, parts=True)
            self._add(shapes.whole, parts=False)
            if not text.isascii():  # the form in which bytes are searched
                self._add([text.encode("utf-8", "surrogatepass").decode("latin-1")], parts=True)

    def _add(self, texts: Sequence[str], *, parts: bool) -> None:
        for text in texts:
            if len(text) >= LONG:
                form = lowered(text)
                if form not in self._long:
                    self._long[form] = Shape(form, parts=parts)
                    self._blocks += self._long[form].blocks
            elif len(text) >= SHORTEST:
                self._short.add(text)

    def text(self, text: str) -> str:
        """Return `text` with every known secret, and large parts of one, masked."""
        if len(text) >= LONG and self._long:
            low = lowered(text)
            spans = [span for shape in self._long.values() for span in shape.spans(low)]
            if spans:
                text = _masked(text, spans)
        for secret in self._short:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def settled(self, text: str) -> int:
        """Return how many characters of `text` can be masked and passed on before more text follows: no secret spans that
        position, or could begin before it and continue in the following text."""
        at = len(text) - 2 * max(
            [len(secret) for secret in self._short] + [shape.length for shape in self._long.values()], default=0
        )
        if at <= 0:
            return 0
        low = lowered(text)
        spans = [
            span for shape in self._long.values() if any(block in low for block in shape.blocks) for span in shape.spans(low)
        ]
        for secret in self._short:
            found = text.find(secret, max(0, at - len(secret)))
            if 0 <= found < at:
                spans.append((found, found + len(secret)))
        while crossing := [begin for begin, end in spans if begin < at < end]:
            at = min(crossing)
        return at

    def value(self, value: Any) -> Any:
        """Return `value` with every known secret masked, also in keys; `Secret` values stay wrapped."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping | list | tuple) and not self._may_be_in(value):
            return value
        if isinstance(value, Mapping):
            return {self.text(k) if isinstance(k, str) else k: self.value(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            masked = [self.value(v) for v in value]
            return [MASK] if self._spelled(masked) else masked
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            return MASK if text in self._short or text in self._long else value
        return value

    def _may_be_in(self, value: Any) -> bool:
        """Return False if `value` certainly contains no secret. All its texts are tested together, which is fast for pages of
        rows."""
        text = "\0".join(_texts(value))
        low = lowered(text)
        return any(block in low for block in self._blocks) or any(secret in text for secret in self._short)

    def _spelled(self, items: Sequence[Any]) -> bool:
        """Return whether `items` spell a secret one by one: its characters, its bytes, or pieces of it."""
        text = _spelling(items)
        return self.text(text) != text

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return `outcome` with secrets masked in result, error, helpers and meta."""
        error = outcome.error
        if error is not None:
            code = self.value(error.code) if isinstance(error.code, str) else error.code
            error = replace(error, message=self.text(error.message), code=code, details=self.value(error.details))
        said = {name: self.value(getattr(outcome, name)) for name in ("result", "helpers", "meta")}
        return replace(outcome, error=error, **said)


def _spelling(items: Sequence[Any]) -> str:
    """Return the text that a list of characters, of code points, or of pieces spells; empty for any other list."""
    if not SHORTEST <= len(items) <= LONGEST_LIST:
        return ""
    kinds = set(map(type, items))
    if kinds == {str}:
        return "".join(items)
    return "".join(map(chr, items)) if kinds == {int} and min(items) > 0 and max(items) < 0x110000 else ""


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in `value` that could be, or could spell, a secret."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            yield from (key for key in one if isinstance(key, str))
            stack.extend(one.values())
        elif isinstance(one, list | tuple):
            yield _spelling(one)
            stack.extend(one)
        elif isinstance(one, int | float):
            yield str(one)


def _masked(text: str, spans: list[tuple[int, int]]) -> str:
    """Return `text` with the spans masked, which may overlap; white space at their edges stays."""
    out: list[str] = []
    upto = 0
    for begin, end in sorted(spans):
        while begin < end and text[begin].isspace():
            begin += 1
        if begin > upto or not out:
            out += [text[upto:begin], MASK]
        upto = max(upto, end)
    return "".join([*out, text[upto:]])
