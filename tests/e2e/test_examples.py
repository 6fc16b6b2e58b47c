"""Every example gives the same on the stack as in one process."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_cli.inputs.services import services_for
from tests.e2e.support import Api
from tests.examples_runner import CASES, EXAMPLES
from tests.properties import some


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize(("name", "payload", "expected"), some(CASES, 4), ids=lambda v: v if isinstance(v, str) else "")
def test_an_example_gives_its_result(api: Api, name: str, payload: dict[str, Any], expected: Any) -> None:
    playbook = EXAMPLES / name / "playbook.yaml"
    with services_for(playbook, payload) as addresses:
        summary = api.run(playbook.read_text(), {**addresses, **payload})
    assert (summary["status"], summary["error"]) == ("completed", None)
    assert summary["result"] == expected
