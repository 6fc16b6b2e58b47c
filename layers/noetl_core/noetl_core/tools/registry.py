"""Finding the tool of a kind. Nothing heavy is imported here: a kind's module is loaded when a task of that kind runs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from importlib import import_module
from typing import Final, cast

from noetl_core.tools.base import Tool

ENTRY_POINTS: Final = "noetl.tools"
"""Third-party kinds: an entry point of this group names the kind and a class (or factory) of no arguments."""

BUILT_IN: Final[dict[str, str]] = {
    "noop": "noetl_core.tools.noop:NoopTool",
    "http": "noetl_core.tools.http:HttpTool",
    "python": "noetl_core.tools.python:PythonTool",
    "duckdb": "noetl_core.tools.duckdb:DuckDBTool",
    "postgres": "noetl_core.tools.postgres:PostgresTool",
    "store": "noetl_core.tools.store:StoreTool",
    "secrets": "noetl_core.tools.secrets:SecretsTool",
}
PLUGINS: Final = {"quantum": "noetl-quantum"}
"""Kinds that the language knows and a distribution of its own carries out."""


class UnknownKind(LookupError):
    """No tool of this kind is installed. Who acts: the author, or whoever deploys the plugin; kind `unsupported`."""


class ToolRegistry:
    """Tools by kind, one instance each, made at first use. Thread-safe."""

    def __init__(self, tools: dict[str, Tool] | None = None) -> None:
        """`tools` are kinds given as instances; they win over built-in ones (tests, embedding)."""
        self._tools: dict[str, Tool] = dict(tools or {})
        self._inline: dict[str, bool] = {}
        self._lock = threading.Lock()

    def get(self, kind: str) -> Tool:
        """The tool of `kind`. Raises `UnknownKind`."""
        tool = self._tools.get(kind)
        if tool is None:
            with self._lock:
                tool = self._tools.get(kind) or self._tools.setdefault(kind, _make(kind))
        return tool

    def inline(self, kind: str) -> bool:
        """Whether a tool of `kind` is cheap and never blocks; one that nobody provides fails at once."""
        known = self._inline.get(kind)
        if known is None:
            try:
                known = bool(self.get(kind).inline)
            except UnknownKind:
                known = True
            self._inline[kind] = known
        return known

    def close(self) -> None:
        """Let go of what the tools made so far keep open (connections); each opens again when it is used again."""
        for tool in list(self._tools.values()):
            close = getattr(tool, "close", None)
            if close is not None:
                close()

    def warm(self, kinds: Iterable[str]) -> None:
        """Let tools that take a moment to start begin with it now (those with a `warm` method; built-in: `python`); does not
        wait."""
        for kind in kinds:
            if kind == "python" or kind in self._tools:
                warm = getattr(self.get(kind), "warm", None)
                if warm is not None:
                    warm()

    def kinds(self) -> frozenset[str]:
        """Every kind that `get` would find."""
        from importlib.metadata import entry_points  # 25 ms: only plugins need it

        plugins = {e.name for e in entry_points(group=ENTRY_POINTS)}
        return frozenset(BUILT_IN) | plugins | frozenset(self._tools)


def _make(kind: str) -> Tool:
    target = BUILT_IN.get(kind)
    if target is not None:
        module, _, name = target.partition(":")
        return cast(Tool, getattr(import_module(module), name)())
    from importlib.metadata import entry_points  # 25 ms: only plugins need it

    for plugin in entry_points(group=ENTRY_POINTS, name=kind):
        return cast(Tool, plugin.load()())
    if kind in PLUGINS:
        raise UnknownKind(
            f"kind {kind!r} is in {PLUGINS[kind]}: install it where tasks run (a stack: `noetl up --tools {PLUGINS[kind]}`)"
        )
    raise UnknownKind(f"there is no tool of kind {kind!r} here: built in are {', '.join(sorted(BUILT_IN))}")
