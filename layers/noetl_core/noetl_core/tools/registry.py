"""Finds the tool of a kind. Nothing heavy is imported here: the module of a kind is loaded when a task of that kind runs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from importlib import import_module
from typing import Final, cast

from noetl_core.dsl.kinds import PLUGINS
from noetl_core.ports import KeyValues, PackageFinder
from noetl_core.tools.base import EventedTool, OutsideTool, Tool

ENTRY_POINTS: Final = "noetl.tools"
"""Kinds of plugins: an entry point of this group names the kind and a class (or factory) without arguments."""

BUILT_IN: Final[dict[str, str]] = {
    "noop": "noetl_core.tools.noop:NoopTool",
    "http": "noetl_core.tools.http.tool:HttpTool",
    "python": "noetl_core.tools.python.tool:PythonTool",
    "shell": "noetl_core.tools.shell:ShellTool",
    "duckdb": "noetl_core.tools.duckdb.tool:DuckDBTool",
    "postgres": "noetl_core.tools.postgres.tool:PostgresTool",
    "store": "noetl_core.tools.store:StoreTool",
    "llm": "noetl_core.tools.llm:LlmTool",
    "mcp": "noetl_core.tools.mcp.tool:McpTool",
    "secrets": "noetl_core.tools.secrets:SecretsTool",
    "kv": "noetl_core.tools.kv:KvTool",
    "artifact": "noetl_core.tools.artifact:ArtifactTool",
    "sqs": "noetl_core.tools.aws.sqs:SqsTool",
    "dynamodb": "noetl_core.tools.aws.dynamodb:DynamoDBTool",
    "lambda": "noetl_core.tools.aws.functions:LambdaTool",
    "sns": "noetl_core.tools.aws.sns:SnsTool",
    "eventbridge": "noetl_core.tools.aws.eventbridge:EventBridgeTool",
    "email": "noetl_core.tools.aws.email:EmailTool",
    "s3": "noetl_core.tools.aws.s3:S3Tool",
    "transfer": "noetl_core.tools.transfer.tool:TransferTool",
}
FOR_LOOPS: Final[dict[str, str]] = {
    "cursor.sqs": "noetl_core.tools.cursors.sqs:SqsCalls",
    "cursor.dynamodb": "noetl_core.tools.cursors.dynamodb:DynamoDBCalls",
}
"""Internal kinds by which loops call their sources; no task has them."""


class UnknownKind(LookupError):
    """No tool of this kind is installed. Who acts: the author, or the operator, who deploys the plugin; kind `unsupported`."""


class ToolRegistry:
    """Tools by kind, one instance each, created at first use. Thread-safe."""

    def __init__(self, tools: dict[str, Tool] | None = None) -> None:
        """`tools` are instances by kind; they replace built-in ones (for tests and embedding)."""
        self.packages: PackageFinder = deployed_packages
        """Finds the packages that playbooks require."""
        self.key_values: KeyValues | None = None
        """Values that outlive executions; None if tasks may not use them."""
        self._tools: dict[str, Tool] = dict(tools or {})
        self._inline: dict[str, bool] = {}
        self._evented: dict[str, EventedTool | None] = {}
        self._outside: dict[str, OutsideTool | None] = {}
        self._lock = threading.Lock()

    def get(self, kind: str) -> Tool:
        """Return the tool of `kind`. Raises `UnknownKind`."""
        tool = self._tools.get(kind)
        if tool is None:
            with self._lock:
                tool = self._tools.get(kind) or self._tools.setdefault(kind, make(kind))
        return tool

    def inline(self, kind: str) -> bool:
        """Return whether a tool of `kind` is cheap and never blocks. A kind that is not installed fails at once, so it counts
        too."""
        known = self._inline.get(kind)
        if known is None:
            try:
                known = bool(self.get(kind).inline)
            except UnknownKind:
                known = True
            self._inline[kind] = known
        return known

    def punctual(self, kind: str) -> bool:
        """Return whether calls of a tool of `kind` end by their timeout, and when they are cancelled (`base.PunctualTool`)."""
        try:
            return bool(getattr(self.get(kind), "punctual", False))
        except UnknownKind:
            return False

    def takes_texts(self, kind: str) -> bool:
        """Return whether tools of `kind` take `JsonText` in place of large values (`base.TextTool`)."""
        try:
            return bool(getattr(self.get(kind), "takes_texts", False))
        except UnknownKind:
            return False

    def evented(self, kind: str) -> EventedTool | None:
        """Return the tool of `kind` if its calls need no thread of their own."""
        if kind not in self._evented:
            tool = self.get(kind)
            self._evented[kind] = cast(EventedTool, tool) if hasattr(tool, "answer") else None
        return self._evented[kind]

    def outside(self, kind: str) -> OutsideTool | None:
        """Return the tool of `kind` if its work is done outside (`base.OutsideTool`)."""
        if kind not in self._outside:
            try:
                tool = self.get(kind)
            except UnknownKind:
                return None
            self._outside[kind] = cast(OutsideTool, tool) if hasattr(tool, "planned") else None
        return self._outside[kind]

    def close(self) -> None:
        """Close the connections of the tools; they are opened again on demand."""
        for tool in list(self._tools.values()):
            close = getattr(tool, "close", None)
            if close is not None:
                close()

    def warm(self, kinds: Iterable[str]) -> None:
        """Call `warm` of the tools that have it (built-in: `python`), which begins a slow start without waiting."""
        for kind in kinds:
            if kind == "python" or kind in self._tools:
                warm = getattr(self.get(kind), "warm", None)
                if warm is not None:
                    warm()

    def kinds(self) -> frozenset[str]:
        """Return every kind that `get` would find."""
        from importlib.metadata import entry_points  # 25 ms: only plugins need it

        plugins = {e.name for e in entry_points(group=ENTRY_POINTS)}
        return frozenset(BUILT_IN) | plugins | frozenset(self._tools)


def deployed_packages(requirements: tuple[str, ...]) -> str:
    """Return the folder of a layer that has these packages (`tools.python.packages`). Raises `MissingPackages`."""
    from noetl_core.tools.python.packages import deployed  # 2 ms: few playbooks require packages

    return deployed(requirements)


def make(kind: str) -> Tool:
    """Return a new tool of `kind`. Raises `UnknownKind`."""
    target = BUILT_IN.get(kind) or FOR_LOOPS.get(kind)
    if target is not None:
        module, _, name = target.partition(":")
        try:
            return cast(Tool, getattr(import_module(module), name)())
        except ModuleNotFoundError as error:
            raise UnknownKind(
                f"kind {kind!r} needs {error.name}, which is not installed here: on a stack, `sam build` and"
                " `noetl up` put it into the workers' package"
            ) from error
    from importlib.metadata import entry_points  # 25 ms: only plugins need it

    for plugin in entry_points(group=ENTRY_POINTS, name=kind):
        return cast(Tool, plugin.load()())
    if kind in PLUGINS:
        raise UnknownKind(
            f"kind {kind!r} is in {PLUGINS[kind]}: install it where tasks run (a stack: `noetl up --tools {PLUGINS[kind]}`)"
        )
    raise UnknownKind(f"there is no tool of kind {kind!r} here: built in are {', '.join(sorted(BUILT_IN))}")
