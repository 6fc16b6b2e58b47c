"""The names of a template: layers of namespaces that are cheap to stack and read lazily (resolution 14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from noetl_core.values.frozen import frozen
from noetl_core.values.outlines import Part

BARE: Final = ("args", "ctx", "iter", "workload")
"""Namespaces in which a bare name is looked up, in this order, after the layers themselves."""

TRIGGER: Final = "trigger"
"""The trigger of the execution, unless the name has another meaning."""

JOB: Final = "job"
JOB_FIELDS: Final = ("execution_id", "uuid", "id")
"""`job.execution_id` and its other names: the value of `job`, unless the name has another meaning."""

MISSING: Final[Any] = object()
"""`Scope.lookup` returns this for a name without a value."""


@frozen
class Pointer:
    """A result that is stored elsewhere: `at` is its position in terms of the caller (e.g. `{"run": ..., "seq": ...}`).

    Reading a name or attribute that holds a pointer calls the scope's `resolve(pointer)`, which returns the value or a
    reference.
    """

    at: Any


Resolve = Callable[[Any], Any]
"""`resolve(pointer_or_reference) -> value`. It is called at every access, so it should cache. Its exceptions pass through."""


Prefetch = Callable[[Sequence[Mapping[str, Any]]], None]
"""Receives references that will be resolved next, so that they can be loaded together."""


Open = Callable[[Mapping[str, Any]], Part | None]
"""Receives a reference to a large value. Returns a `Part`, of which only the parts that a template reads are loaded, or None if
`resolve` is to load the whole value. Each evaluation calls it once for a reference."""

Blanks = dict[tuple[str, str], None]
"""An ordered set of `(name, template)`: undefined names, and the templates that were rendered as if they were empty."""


class Scope(Mapping[str, Any]):
    """The names that one evaluation sees.

    `layers` are mappings from name to value, those with precedence first: `workload, ctx, iter, args, steps, execution_id,
    keychain, event, outcome, _prev, _task, _attempt, _outcome` and the task names of the pipeline, in any number of mappings.
    A name that no layer has is looked up in `args`, `ctx`, `iter`, `workload`, and last among the finished steps, as
    `steps.<name>.result`. `trigger` and `job` (the execution's id) have the lowest precedence.

    Nothing is copied: a layer may change between evaluations. Values are plain data, `Secret`, `Pointer` or references.

    With `strict`, a template that uses an undefined value fails, except under `default` and `is defined`. Otherwise `blanks`
    receives the undefined names that counted as empty: as text, as a list, or as null.

    `check` is called before each evaluation and now and then during one; its exceptions end the evaluation.
    """

    __slots__ = ("blanks", "check", "layers", "open", "prefetch", "resolve", "strict")

    def __init__(
        self,
        *layers: Mapping[str, Any],
        resolve: Resolve | None = None,
        prefetch: Prefetch | None = None,
        open: Open | None = None,
        strict: bool = False,
        blanks: Blanks | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.layers = layers
        self.check = check
        self.strict = strict
        self.blanks = blanks
        self.resolve = resolve
        self.prefetch = prefetch
        self.open = open

    def over(self, *layers: Mapping[str, Any]) -> Scope:
        """Return this scope with `layers` in front."""
        return self._of((*layers, *self.layers), strict=self.strict)

    def lenient(self) -> Scope:
        """Return this scope without `strict`: undefined values are null, and nothing in text."""
        return self._of(self.layers, strict=False) if self.strict else self

    def unrecorded(self) -> Scope:
        """Return this scope without `blanks`, for templates whose values may be undefined."""
        scope = self._of(self.layers, strict=self.strict)
        scope.blanks = None
        return scope

    def _of(self, layers: tuple[Mapping[str, Any], ...], *, strict: bool) -> Scope:
        return Scope(
            *layers,
            resolve=self.resolve,
            prefetch=self.prefetch,
            open=self.open,
            strict=strict,
            blanks=self.blanks,
            check=self.check,
        )

    def lookup(self, name: str) -> Any:
        """Return the stored value of `name` (not resolved), or `MISSING`."""
        if name != TRIGGER and (value := self._layered(name)) is not MISSING:
            return value
        for namespace in BARE:
            values = self._namespace(namespace)
            if values is not None and name in values:
                return values[name]
        steps = self._namespace("steps")
        if steps is not None and name in steps:
            step = steps[name]
            return step.get("result", MISSING) if isinstance(step, Mapping) else MISSING
        if name == TRIGGER:
            return self._layered(name)
        return self._job() if name == JOB else MISSING

    def _layered(self, name: str) -> Any:
        for layer in self.layers:
            if name in layer:
                return layer[name]
        return MISSING

    def _job(self) -> Any:
        execution_id = self.lookup("execution_id")
        return MISSING if execution_id is MISSING else dict.fromkeys(JOB_FIELDS, execution_id)

    def _namespace(self, name: str) -> Mapping[str, Any] | None:
        for layer in self.layers:
            if name in layer:
                value = layer[name]
                return value if isinstance(value, Mapping) else None
        return None

    def __getitem__(self, name: str) -> Any:
        value = self.lookup(name)
        if value is MISSING:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.lookup(name) is not MISSING

    def __iter__(self) -> Iterator[str]:
        """Yield every name with a value, once."""
        seen: set[str] = set()
        inner = (self._namespace(n) or {} for n in (*BARE, "steps"))
        for names in (*self.layers, *inner):
            for name in names:
                if name not in seen:
                    seen.add(name)
                    yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)
