"""What the API stands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from noetl_core.control.api.callers import REMEDIES, RIGHTS, WRITES, Caller, Rights
from noetl_core.control.core import Control
from noetl_core.control.operations import Operations
from noetl_core.control.refusals import NoRoute, NotAllowed
from noetl_core.events.shapes import By
from noetl_core.ports import Secrets


@dataclass(frozen=True)
class Service:
    """The control plane, how cursors are signed, what the wiring knows, credentials (`Operations` has the details), and what is
    known of callers' rights: whether a caller has one; None where who let it in does not say."""

    control: Callable[[], Control]
    cursor_key: Callable[[], bytes]
    facts: Mapping[str, Any] = field(default_factory=dict)
    secrets: Callable[[], Secrets] | None = None
    rights: Callable[[Caller, str], bool | None] = field(default_factory=Rights)
    paths_required: bool = False
    """Each credential names the playbooks that may use it: on a stack."""

    by: Callable[[], By | None] = lambda: None
    """Who sends the request that is answered now."""
    user: str = ""
    """Who asks where the API asks nobody: the user of this machine."""

    @property
    def operations(self) -> Operations:
        return Operations(
            lambda: self.control().on_behalf_of(self.by()),
            self.cursor_key,
            self.facts,
            self.secrets,
            self.by,
            self.paths_required,
        )

    def demand(self, caller: Caller, right: str) -> None:
        """Raises `NotAllowed` where the caller is known not to have `right`."""
        if self.rights(caller, right) is False:
            remedy = f"; {REMEDIES[right]}" if right in REMEDIES else ""
            raise NotAllowed(f"this caller may not {RIGHTS[right]}: the right `{right}` is needed{remedy}")

    def registers(self, caller: Caller) -> bool:
        """Whether a playbook that comes as text becomes a version of its path: only of a caller who is known to may register."""
        return self.rights(caller, WRITES) is True


def nothing_here() -> NoReturn:
    """In place of a control plane, where there is none. Raises `NoRoute`."""
    raise NoRoute("this function serves credentials alone")
