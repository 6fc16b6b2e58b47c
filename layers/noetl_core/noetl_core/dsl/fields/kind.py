"""Describes a task of one kind: its inputs, options and actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from noetl_core.dsl.fields.types import Anything, Block, Choice, Code, Duration, Field, Shape, Values
from noetl_core.dsl.model import UNSET

MAP: Final = Values(whole=True)
TEXT: Final = Anything("text")
COUNT: Final = Anything("a whole number")
BYTES: Final = Anything("a number of bytes")
FLAG: Final = Anything("true or false")
SCRIPT: Final = Field(
    "script",
    Shape("script", "a path, or a mapping with `uri` and `source`"),
    "A file that holds the text: beside the playbook, in S3, or over HTTP.",
    link="tasks.md#scripts",
)
"""Inputs that a tool checks itself are `Anything`; an error names the text as the expected form."""


def words(text: str) -> frozenset[str]:
    """Return a set of keys that are written in one line."""
    return frozenset(text.split())


SERVICE_ERRORS: Final = words("connection rate_limit client_error server_error parse")
"""The kinds of errors of calls of a service, besides those of every kind."""
DATABASE_ERRORS: Final = words("db_connection db_constraint db_deadlock db_timeout parse")
"""The kinds of errors of databases, besides those of every kind."""


class Action(NamedTuple):
    """The inputs of a kind that one of its actions takes."""

    needs: tuple[frozenset[str], ...] = ()
    """Groups of inputs. The action needs at least one input of each group."""
    takes: frozenset[str] = frozenset()
    """Inputs that may also be given."""

    @property
    def inputs(self) -> frozenset[str]:
        return self.takes.union(*self.needs)


class KindSpec:
    """The description of a task of one kind: its inputs and options, and the rules about them."""

    __slots__ = (
        "accepted",
        "actions",
        "aliases",
        "blocks",
        "choices",
        "durations",
        "exclusive",
        "fails",
        "fields",
        "gives",
        "idle",
        "inputs",
        "inside",
        "maps",
        "needs",
        "options",
        "page",
        "raw",
        "references",
        "required",
        "script",
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
        script: str = "",
        gives: frozenset[str] | None = None,
        actions: Mapping[str, Action] | None = None,
        inside: Callable[[Mapping[str, Any]], bool] = lambda _: False,
        fails: frozenset[str] | None = None,
    ) -> None:
        known = {f.name: f.type for f in fields}
        self.fields = fields
        """Its inputs, other spellings among them."""
        self.options = options
        """Keys of its `spec`, in addition to those of every kind."""
        self.page = page
        """The page that explains the kind."""
        self.required = required
        """Groups of keys. A task needs at least one key of each group."""
        self.exclusive = exclusive
        """Groups of keys. A task may have at most one key of each group."""
        self.script = script
        """The input that `script` fills with the text of a file."""
        self.needs = needs or {}
        """A key that means something only beside another."""
        self.gives = gives
        """The fields of its result, where these are always the same."""
        self.inside = inside
        """Returns whether a task with these inputs and options touches nothing but the store of its execution."""
        self.fails = fails
        """The kinds of errors that it has besides those of every kind; None if they are not known."""
        self.idle = tuple(f.name for f in fields if not f.effect)
        """Inputs that are accepted without effect."""
        self.actions = actions or {}
        """The inputs that each value of `action` takes. Inputs that no action lists belong to all actions."""
        self.inputs = frozenset(f.name for f in fields if not f.same_as)
        self.spec = frozenset(f.name for f in options)
        self.aliases = {f.name: f.same_as for f in fields if f.same_as}
        """Accepted spelling -> canonical input."""
        self.accepted = self.inputs | frozenset(self.aliases)
        self.maps = frozenset(n for n, of in known.items() if isinstance(of, Values | Shape) and n != SCRIPT.name)
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
    def of_actions(self) -> frozenset[str]:
        """Return the inputs that belong to some actions."""
        return frozenset().union(*(action.inputs for action in self.actions.values()))

    def default_of(self, name: str) -> Any:
        """Return the default of an input; None if that is not a single value."""
        default = next(f.default for f in self.fields if f.name == name)
        return None if default is UNSET else default
