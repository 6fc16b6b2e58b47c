"""The fixture `noetl` of pytest, in which tests run playbooks (docs/testing.md).

pytest loads this module in every project, so it imports nothing of NoETL before the fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.register_assert_rewrite("noetl_core.testing.contracts")

if TYPE_CHECKING:
    from noetl_core.dsl.model import Playbook
    from noetl_core.testing import Played


class Playbooks:
    """Runs playbooks for one test; files are searched beside the file of the test."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self._folder, self._held = folder, held

    def run(
        self,
        playbook: str | Path | Playbook,
        payload: Mapping[str, Any] | None = None,
        tools: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Played:
        """Play a playbook in virtual time, with scripted tools, as `noetl_core.testing.run` does. It can be read until the test
        ends."""
        from noetl_core.testing import run  # 400 ms: only tests that run a playbook

        is_text = isinstance(playbook, str) and ("\n" in playbook or playbook.lstrip().startswith("{"))
        if isinstance(playbook, Path | str) and not is_text and (self._folder / playbook).exists():
            playbook = self._folder / playbook
        played = run(playbook, payload, tools, **more)
        self._held.callback(played.close)
        return played


@pytest.fixture
def noetl(request: pytest.FixtureRequest) -> Iterator[Playbooks]:
    """Run playbooks without touching the world, in virtual time: noetl.run(FILE, payload, tools={"step.task": {"ok": 1}})."""
    with ExitStack() as held:
        yield Playbooks(request.path.parent, held)
