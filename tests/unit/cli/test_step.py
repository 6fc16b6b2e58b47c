"""One step of an execution, asked of the API: what is shown of a long loop reads little of its log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from noetl_cli.backends.backend import Backend
from noetl_cli.display.step import show_step
from noetl_core.service.api_service import Service
from tests.running import run_text
from tests.unit.control.decode_counts import count_decoded

LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: t, path: t }
workflow:
  - step: items
    spec: { policy: { failure: { mode: best_effort } } }
    loop: { in: "{{ range(3000) | list }}", iterator: n, spec: { mode: MODE } }
    tool: { kind: noop, result: "{{ 1 // (0 if iter.n % 1500 == 617 else 1) }}" }
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["parallel", "parallel, policy: { exec: distributed }"])
def test_failed_iterations_of_a_long_loop_are_found_without_its_whole_log(
    mode: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    local, state = run_text(LOOP.replace("MODE", mode), most_buffered=100)
    stored = local.database.rows("SELECT count(*) FROM commits WHERE execution_id=?", (state.execution_id,))[0][0]
    decoded = count_decoded(monkeypatch)
    service = Service(lambda: local.control, lambda: b"key")
    where = cast("Backend", SimpleNamespace(name="local", api=service.operations))
    show_step(where, state.execution_id, "items", failed=True, how="text")
    shown = capsys.readouterr().out
    assert "3,000 iterations: 2,998 succeeded, 2 failed" in shown
    assert ("  @617  617\n  @2117  2117\n" if mode == "parallel" else "  @617\n  @2117\n") in shown
    if mode == "parallel":
        assert stored > 90 and len(decoded) < stored / 2
    local.close()
