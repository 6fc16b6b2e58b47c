"""The last valid version of a text: its playbook, and the scopes of its templates with the shapes of their values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from noetl_core.dsl.lint import Called
from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.lint.guards import Guards
from noetl_core.dsl.lint.names import CONTROL, KEYCHAIN, WORKER, Names, Scope, bound_names, places
from noetl_core.dsl.lint.shapes import Env, Shape
from noetl_core.dsl.lint.typed import shape_of
from noetl_core.dsl.model import Path, Playbook
from noetl_core.dsl.parse import examine
from noetl_core.dsl.reading.diagnostics import Diagnostic
from noetl_core.dsl.reading.reader import Reader
from noetl_core.expr import LimitExceeded, TemplateSyntaxError, compile_text
from noetl_core.values.frozen import frozen

_JUDGING: Final = frozenset({"policy", "set_ctx", "set_iter", "set"})
"""Keys of a task whose templates read its outcome."""


@frozen
class Analysis:
    """The findings of one version of a text, and its model if it is valid."""

    diagnostics: tuple[Diagnostic, ...]
    model: Model | None


class Model:
    """A valid version of a playbook."""

    def __init__(self, playbook: Playbook, reader: Reader, called: Called | None) -> None:
        self.playbook = playbook
        self._reader, self._called = reader, called

    @cached_property
    def names(self) -> Names:
        root = self._reader.loaded.root
        assert root is not None
        guards = Guards(self._reader.compiled, strict=self._reader.strict)
        return bound_names(Lint(self._reader, root, self.playbook, guards), self._called)

    @cached_property
    def _scopes(self) -> dict[Path, Scope]:
        return {node.path: scope for node, scope in places(self.names)}

    def scope(self, path: Path, step: str, task: str) -> Scope | None:
        """Return the scope of a place. Its path is that in a chunk; the step and task around it are found by their names, because
        the text may have changed since. None: this version has no such place."""
        if path[:1] != ("workflow",):
            return next(self._along(path), None)
        known = self.playbook.by_name.get(step)
        if known is None:
            return None
        own = (*known.path, *path[2:])
        same = next((t for t in known.tasks if t.name == task), None) if task else None
        if same is not None and len(path) > len(same.path):
            own = (*same.path, *path[len(same.path) :])
            if (found := next(self._along(own, len(same.path)), None)) is not None:
                return found
        if path[2:3] in (("tool",), ("compensate",)):
            where = "task policy" if _JUDGING & frozenset(path) else "a task"
            below = (scope for at, scope in self._scopes.items() if at[: len(known.path)] == known.path)
            return next((scope for scope in below if scope.where == where), None)
        return next(self._along(own, len(known.path)), None)

    def _along(self, path: Path, least: int = 0) -> Iterator[Scope]:
        for length in range(len(path), least, -1):
            if path[:length] in self._scopes:
                yield self._scopes[path[:length]]

    def env(self, scope: Scope | None) -> Env:
        """Return the shapes of the names that the templates of a scope read."""
        return self.names.shapes.roots if scope is None or scope.env is None else scope.env


def analyse(text: str, source: str, called: Called | None = None) -> Analysis:
    """Validate and lint a text."""
    playbook, found, reader = examine(text, source, lenient=True, called=called)
    return Analysis(tuple(found), None if playbook is None else Model(playbook, reader, called))


def roots_at(path: Path) -> frozenset[str]:
    """Return the names that templates may read at a place of a text that was never valid."""
    keys = frozenset(path)
    if path[:1] == ("keychain",):
        return KEYCHAIN
    if path[:1] == ("workflow",) and not keys & {"tool", "compensate"} and "task" not in keys:
        return CONTROL | {"event"} if keys & {"next", "set_ctx", "set", "admit", "args", "input"} else CONTROL
    if path[:1] == ("executor",):
        return CONTROL
    return CONTROL | WORKER | ({"outcome"} if keys & _JUDGING else frozenset())


def shape(expression: str, env: Env) -> Shape | None:
    """Return the shape of the value of an expression."""
    try:
        return shape_of(compile_text(f"{{{{ {expression} }}}}"), env)
    except (TemplateSyntaxError, LimitExceeded, RecursionError):
        return None
