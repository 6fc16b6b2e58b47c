"""What a task of one kind may contain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.fields.types import Anything, Block, Choice, Code, Duration, Field, Shape, Values

MAP: Final = Values(whole=True)
TEXT: Final = Anything("text")
COUNT: Final = Anything("a whole number")
BYTES: Final = Anything("a number of bytes")
FLAG: Final = Anything("true or false")
"""What a tool checks itself is `Anything`; the text is what an error says was expected."""


def words(text: str) -> frozenset[str]:
    """Return a set of keys that are written in one line."""
    return frozenset(text.split())


class KindSpec:
    """What a task of one kind may contain."""

    __slots__ = (
        "aliases",
        "blocks",
        "choices",
        "durations",
        "exclusive",
        "fields",
        "gives",
        "idle",
        "inputs",
        "maps",
        "needs",
        "options",
        "page",
        "raw",
        "references",
        "required",
        "spec",
    )

    def __init__(
        self,
        fields: tuple[Field, ...],
        options: tuple[Field, ...] = (),
        page: str = "",
        *,
        required: tuple[frozenset[str], ...] = (),
        exclusive: tuple[frozenset[str], ...] = (),
        needs: Mapping[str, str] | None = None,
        gives: frozenset[str] | None = None,
    ) -> None:
        known = {f.name: f.type for f in fields}
        self.fields = fields
        """Its inputs, other spellings among them."""
        self.options = options
        """Keys of its `spec`, beside those that every kind takes."""
        self.page = page
        """Where it is explained."""
        self.required = required
        """Of each group at least one key must be there."""
        self.exclusive = exclusive
        """Of each group at most one key."""
        self.needs = needs or {}
        """A key that means something only beside another."""
        self.gives = gives
        """The fields of its result, where these are always the same."""
        self.idle = tuple(f.name for f in fields if not f.effect)
        """Inputs that are accepted without effect."""
        self.inputs = frozenset(f.name for f in fields if not f.same_as)
        self.spec = frozenset(f.name for f in options)
        self.aliases = {f.name: f.same_as for f in fields if f.same_as}
        """Accepted spelling -> canonical input."""
        self.maps = frozenset(name for name, kind in known.items() if isinstance(kind, Values | Shape))
        """Inputs that must be mappings (or one whole template)."""
        self.blocks = {name: kind for name, kind in known.items() if isinstance(kind, Block)}
        """Inputs that are mappings with fields of their own."""
        self.raw = frozenset(name for name, kind in known.items() if isinstance(kind, Code))
        """Inputs that are program text: never rendered."""
        self.references = frozenset(f.name for f in fields if f.references and not f.same_as)
        """Inputs that may hold references, which the kind reads or passes on itself; all others are values."""
        self.choices = {name: kind.words for name, kind in known.items() if isinstance(kind, Choice)}
        self.durations = {name: kind.allowed for name, kind in known.items() if isinstance(kind, Duration)}
        """Inputs that are seconds, or text such as `15m`."""

    @property
    def accepted(self) -> frozenset[str]:
        return self.inputs | frozenset(self.aliases)
