"""The base of requests. A request class states one operation of the API: its method and path, the right that it needs, its
fields, the type of its answer, and its refusals. Routes, the OpenAPI document, the HTTP client and the client in this process
follow from it.

    class GetState(Request["executions_shapes.ExecutionState"]):
        \"\"\"State now or at an event.\"\"\"

        http = Http("GET", "/api/executions/{execution_id}/state", right=READS)
        execution_id: ExecutionId
        at: Annotated[str | None, "the id of an event: the state just after it"] = None
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Self, TypeVar, dataclass_transform, overload

from noetl_core.values.frozen import frozen

Answer = TypeVar("Answer")
Service = TypeVar("Service")
P = ParamSpec("P")
JSON = "application/json"
HTML = "text/html; charset=utf-8"


@frozen
class Http:
    """The HTTP side of an operation. `{name}` in `path` is a part of it, `{name+}` one with slashes in it.

    `right` is the right that the caller needs (empty: every caller of the API may call it), `status` that of success, `refuses`
    are statuses
    beyond those of every route (`document.refusals`). `body` names the schema of the JSON body, which may be left out if
    `optional`.
    """

    method: str
    path: str
    right: str = ""
    status: int = 200
    refuses: tuple[int, ...] = ()
    body: str = ""
    optional: bool = False
    also: tuple[int, ...] = ()
    """Other statuses of success, with the same type of answer."""
    media: tuple[str, ...] = (JSON,)
    """The content types of its answers."""
    answers: str = ""
    """The type of its answers in the document, if it is not that of the request class."""

    def pattern(self) -> re.Pattern[str]:
        """Return a regular expression of the paths that it answers."""
        parts = re.sub(r"\\\{(\w+)(\\\+)?\\\}", lambda m: f"(?P<{m[1]}>{'.+' if m[2] else '[^/]+'})", re.escape(self.path))
        return re.compile(parts, re.DOTALL)


@dataclass_transform(frozen_default=True)
class Request(Generic[Answer]):
    """A request. Subclasses are like frozen dataclasses: fields after `_: KW_ONLY` are passed by name. (Generated methods would
    take 20 ms of every start.)"""

    http: ClassVar[Http]
    handler: ClassVar[Callable[[Any, Any], Any]]
    """Performs the operation; the service sets it (`answered`)."""

    if not TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kind = type(self)
            positional, names = _names(kind)
            if len(args) > len(positional):
                raise TypeError(f"{kind.__name__} takes {len(positional)} positional arguments, not {len(args)}")
            values = dict(zip(positional, args, strict=False))
            wrong = [name for name in kwargs if name not in names or name in values]
            missing = [name for name in names if name not in values and name not in kwargs and not hasattr(kind, name)]
            if wrong or missing:
                raise TypeError(f"{kind.__name__} has unexpected arguments {wrong}, or misses {missing}")
            self.__dict__ |= values | kwargs

    @classmethod
    def answered(cls, handler: Callable[[Service, Self], Answer]) -> Callable[[Service, Self], Answer]:
        """Register `handler` as the implementation of the operation."""
        cls.handler = staticmethod(handler)
        return handler

    @classmethod
    def operation_id(cls) -> str:
        """Return the operation's id in the document: that of `GetState` is `get_state`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def also_needs(self) -> Iterator[str]:
        """Yield rights that this request needs beside the one of its operation."""
        return iter(())

    def success(self, answer: Any) -> int:
        """Return the status of a successful answer."""
        return self.http.status

    def headers(self, answer: Any) -> Mapping[str, str]:
        """Return headers of an answer."""
        return {}

    def content_type(self) -> str:
        """Return the content type of the answer; if it is not JSON, the answer is text."""
        return JSON


@cache
def _names(kind: type) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the fields of a request class that may be passed by position, and all fields."""
    names = list(get_annotations(kind))
    positional = names[: names.index("_")] if "_" in names else names
    return tuple(positional), frozenset(names) - {"_"}


class Caller(ABC):
    """Sends requests: over HTTP, or to the services in this process."""

    @abstractmethod
    def call(self, request: Request[Answer]) -> Answer:
        """Return the answer to a request."""


class Operation(Generic[P, Answer]):
    """A method that sends a request of a class, with its arguments."""

    def __init__(self, request: Callable[P, Request[Answer]]) -> None:
        self.request = request
        self.__doc__ = request.__doc__

    @overload
    def __get__(self, caller: None, owner: type) -> Self: ...
    @overload
    def __get__(self, caller: Caller, owner: type) -> Callable[P, Answer]: ...
    def __get__(self, caller: Caller | None, owner: type) -> Any:
        if caller is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Answer:
            return caller.call(self.request(*args, **kwargs))

        return call
