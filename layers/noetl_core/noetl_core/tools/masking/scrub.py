"""Masks secrets in the answers of tools: the secret texts of the inputs, in the forms in which they appear by accident.

Data stays as it is, unless it is a secret, contains one that is not a word, or calls a word a secret (`words`): with the password
`demo`, a result `demographics` is not touched. Logs and error messages are for people: there a word counts, too, if it stands
alone.

This protects against accidents (an echo, an error message, a log line, an encoded header), not against an author who wants to
leak a secret: an author with the right to a credential may send it anywhere. The paths of the credential, and the right to
register playbooks, decide who may use it (docs/access.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret, reveal
from noetl_core.expr.secret import MASK
from noetl_core.tools.masking.credential_fields import public_fields
from noetl_core.tools.masking.forms import LONG, Shape, basic, lowered, shapes_of
from noetl_core.tools.masking.words import BEFORE, alone_pattern, called_secret, is_alone, is_alone_together, is_joined, is_word

SHORTEST: Final = 4
"""A secret shorter than this cannot be distinguished from ordinary text."""
LONGEST_WORD: Final = 200
"""Characters of a word, or of joined words, that pieces of an object do not divide."""
LONGEST_LIST: Final = 100_000
"""The most items of a list that are examined together, as the characters of a text."""

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
        self._words: set[str] = set()
        """Secrets that are words, those that are long enough to be found in either letter case in lower case."""
        self._long: dict[str, Shape] = {}
        self._blocks: list[str] = []
        """Texts one of which a long value must contain to need masking."""
        self._wholes: list[Any] = []
        """Secret objects and lists. One that comes back whole is masked whole: its short parts would not be found."""

    def __bool__(self) -> bool:
        return bool(self._short or self._long or self._wholes)

    def learn_secrets(self, value: Any) -> None:
        """Mask every `Secret` in `value` from now on."""
        if isinstance(value, Secret):
            opened = reveal(value)
            self.learn(opened)
            if opened and isinstance(opened, Mapping | list):
                self._wholes.append(opened)
            for read in value.made_of:
                self.learn(reveal(read))
        elif isinstance(value, Mapping):
            if isinstance(value.get("password"), Secret):
                self._basic(reveal(dict(value)))
            for item in value.values():
                self.learn_secrets(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.learn_secrets(item)

    def learn(self, value: Any, kind: Any = None) -> None:
        """Mask `value` from now on: a secret, or a credential with its fields. `kind` is the type of the credential."""
        if isinstance(value, Mapping):
            self._basic(value)
            kind = value.get("type", kind)
            public = public_fields(kind)
            for key, item in value.items():
                if key not in public:
                    self.learn(item, kind)
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

    def _basic(self, fields: Mapping[Any, Any]) -> None:
        if isinstance(fields.get("password"), str):
            self._add([basic(fields.get("username", fields.get("user", "")), fields["password"])], parts=False)

    def _text(self, text: str) -> None:
        if len(text) >= SHORTEST:
            if is_word(text):
                self._words.add(lowered(text) if len(text) >= LONG else text)
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
        """Return `text`, which people read (a line of a log, a message), with every known secret, and large parts of one, masked.
        A secret that is a word is masked where it stands alone."""
        text = _mask_spans(text, self._spans(text, alone=True))
        for secret in self._short:
            if secret in text:
                text = alone_pattern(secret).sub(MASK, text)
        return text

    def data(self, text: str) -> str:
        """Return `text`, a part of a result, masked: if it is a secret, where it has one that is not a word, and where it calls
        a word a secret."""
        return MASK if text in self._short else _mask_spans(text, self._in_data(text))

    def body(self, text: str) -> str:
        """Return the text of a stored object masked like `data`: also where a JSON string in it is a secret."""
        quoted = [(begin + 1, end - 1) for begin, end in self._strings(text)]
        return MASK if text in self._short else _mask_spans(text, [*self._in_data(text), *quoted])

    def _in_data(self, text: str) -> list[tuple[int, int]]:
        return [*self._spans(text, alone=False), *((begin, end) for _, begin, end in self._called(text))]

    def _spans(self, text: str, *, alone: bool) -> list[tuple[int, int]]:
        """Return where long secrets are in `text`. A word counts only if it is the secret and all of the text, joined words only
        if they are the secret and stand alone, or, with `alone`, either if no letter or digit is beside it."""
        if len(text) < LONG or not self._long:
            return []
        low = lowered(text)
        return [
            (begin, end)
            for shape in self._long.values()
            for begin, end in shape.spans(low)
            if not is_word(low[begin:end])
            or (alone and is_alone(text, begin, end))
            or (end - begin == shape.length and (shape.length == len(low) or _are_joined(text, low, begin, end)))
        ]

    def _called(self, text: str, first: int = 0) -> Iterator[tuple[int, int, int]]:
        """Yield where `text` calls a word a secret: where that begins, and the span of the word."""
        if self._words and len(text) > SHORTEST:
            low = lowered(text)
            for word in self._words:
                yield from called_secret(text, low if len(word) >= LONG else text, word, first)

    def _strings(self, text: str, first: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the spans of JSON strings that are words and secrets, with their quotes."""
        low = lowered(text) if self._words else text
        for word in self._words | self._short:
            searched, quoted = low if len(word) >= LONG else text, f'"{word}"'
            begin = searched.find(quoted, first)
            while begin >= 0:
                yield begin, begin + len(quoted)
                begin = searched.find(quoted, begin + len(quoted))

    def settled(self, text: str) -> int:
        """Return how many characters of `text` can be masked and passed on before more text follows: no secret spans that
        position, or could begin before it and continue in the following text, and it divides no word."""
        longest = [len(secret) + 2 for secret in (*self._short, *self._words)] + [shape.length for shape in self._long.values()]
        at = len(text) - 2 * max(longest, default=0) - (BEFORE if self._words else 0)
        if at <= 0:
            return 0
        low = lowered(text)
        first = max(0, at - 2 * (BEFORE + LONGEST_WORD + max(longest)))
        spans = [
            span for shape in self._long.values() if any(block in low for block in shape.blocks) for span in shape.spans(low)
        ]
        spans += self._strings(text, first)
        spans += [(begin, end) for begin, _, end in self._called(text, first)]
        at = _start_of_word(text, at)
        while crossing := [begin for begin, end in spans if begin < at < end]:
            at = _start_of_word(text, min(crossing))
        return at

    def value(self, value: Any) -> Any:
        """Return `value` with every known secret masked, also in keys; `Secret` values stay wrapped."""
        if isinstance(value, str):
            return self.data(value)
        if isinstance(value, Mapping | list | tuple):
            if not self._may_be_in(value):
                return value
            if value in self._wholes:
                return MASK
        if isinstance(value, Mapping):
            return {self.data(k) if isinstance(k, str) else k: self.value(v) for k, v in value.items()}
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
        if self._wholes and any(part in self._wholes for part in _containers(value)):
            return True
        text = "\0".join(_texts(value))
        low = lowered(text)
        return any(block in low for block in self._blocks) or any(secret in text for secret in self._short)

    def _spelled(self, items: Sequence[Any]) -> bool:
        """Return whether `items` spell a secret one by one: its characters, its bytes, or pieces of it."""
        text = _spelling(items)
        return self.data(text) != text

    def _readable(self, value: Any) -> Any:
        """Return the details of an error with its texts masked as messages."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: self._readable(part) for name, part in value.items()}
        return [self._readable(part) for part in value] if isinstance(value, list | tuple) else value

    def _sections(self, sections: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the helpers or the meta of an outcome, masked. They stay a mapping, even if a secret equals them."""
        return {self.data(name): self.value(section) for name, section in sections.items()}

    def outcome(self, outcome: Outcome) -> Outcome:
        """Return `outcome` with secrets masked in result, error, helpers and meta."""
        error = outcome.error
        if error is not None:
            code = self.text(error.code) if isinstance(error.code, str) else error.code
            error = replace(error, message=self.text(error.message), code=code, details=self._readable(self.value(error.details)))
        helpers, meta = self._sections(outcome.helpers), self._sections(outcome.meta)
        return replace(outcome, result=self.value(outcome.result), error=error, helpers=helpers, meta=meta)


def _are_joined(text: str, low: str, begin: int, end: int) -> bool:
    return is_joined(low[begin:end]) and is_alone_together(text, begin, end)


def _start_of_word(text: str, at: int) -> int:
    """Return where the word, or the joined words, begin in whose middle `at` is; `at` if they are longer than any."""
    begin = at
    while begin > at - LONGEST_WORD and begin > 0 and _is_of_word(text[begin - 1]) and _is_of_word(text[begin]):
        begin -= 1
    return begin if begin > at - LONGEST_WORD else at


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character in "_-."


def _spelling(items: Sequence[Any]) -> str:
    """Return the text that a list of characters, of code points, or of pieces spells; empty for any other list."""
    if not SHORTEST <= len(items) <= LONGEST_LIST:
        return ""
    kinds = set(map(type, items))
    if kinds == {str}:
        return "".join(items)
    return "".join(map(chr, items)) if kinds == {int} and min(items) > 0 and max(items) < 0x110000 else ""


def _containers(value: Any) -> Iterator[Any]:
    """Yield `value` and every object and list in it."""
    stack = [value]
    while stack:
        one = stack.pop()
        yield one
        parts = one.values() if isinstance(one, Mapping) else one
        stack.extend(part for part in parts if isinstance(part, Mapping | list | tuple))


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


def _mask_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """Return `text` with the spans masked, which may overlap; white space at their edges stays."""
    if not spans:
        return text
    out: list[str] = []
    upto = 0
    for begin, end in sorted(spans):
        while begin < end and text[begin].isspace():
            begin += 1
        if begin > upto or not out:
            out += [text[upto:begin], MASK]
        upto = max(upto, end)
    return "".join([*out, text[upto:]])
