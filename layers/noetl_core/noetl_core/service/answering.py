"""Answers requests of the HTTP API: operations, and the rights of callers.

It loads no operation itself, because a function with only some of them starts sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from noetl_core.api.callers import REMEDIES, Caller, Rights, author_of
from noetl_core.api.refused import NoRoute, NotAllowed
from noetl_core.api.request import Request
from noetl_core.api.rights import RIGHTS, WRITES
from noetl_core.control.refusals import Refused, refusal
from noetl_core.events.shapes import By
from noetl_core.ports import Secrets
from noetl_core.service.operations.base import Operations

if TYPE_CHECKING:
    from noetl_core.control.core import Control


@dataclass(frozen=True)
class Service:
    """Answers the requests of the HTTP API. The first fields are those of `Operations`.

    `rights` returns whether a caller has a right; None if that is not known.
    """

    control: Callable[[], Control]
    cursor_key: Callable[[], bytes]
    facts: Mapping[str, Any] = field(default_factory=dict)
    secrets: Callable[[], Secrets] | None = None
    rights: Callable[[Caller, str], bool | None] = field(default_factory=Rights)
    paths_required: bool = False
    """If true, each credential must name the playbooks that may use it. True on a stack."""
    user: str = ""
    """The caller, if the API authenticates nobody: the user of this machine."""

    @property
    def operations(self) -> Operations:
        """Return the operations, on behalf of nobody."""
        return self._operations(lambda: None)

    def _operations(self, by: Callable[[], By | None], *, registers: bool = True) -> Operations:
        return Operations(self.control, self.cursor_key, self.facts, self.secrets, by, self.paths_required, registers)

    def answer(self, request: Request[Any], event: Mapping[str, Any]) -> Any:
        """Return the answer to a request from a proxy event.

        The text of a playbook becomes a version of its path only if the caller is known to have the right to register it.
        """
        registers = self.rights(event.get("requestContext") or {}, WRITES) is True
        return self._operations(lambda: author_of(event, self.user), registers=registers).call(request)

    def demand(self, caller: Caller, right: str) -> None:
        """Raise `NotAllowed` if the caller is known not to have `right`."""
        if self.rights(caller, right) is False:
            remedy = f"; {REMEDIES[right]}" if right in REMEDIES else ""
            raise NotAllowed(f"this caller may not {RIGHTS[right]}: the right `{right}` is needed{remedy}")

    def refusal(self, error: Exception, request_id: str) -> Refused:
        """Return the status and the body for an exception."""
        return refusal(error, request_id)


def nothing_here() -> NoReturn:
    """Stand in for a missing control plane. Raises `NoRoute`."""
    raise NoRoute("this function only serves credentials")
