"""Pages that a pipeline fetches by jumping back: each has a key of its own, whichever worker fetches it."""

from __future__ import annotations

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.sim.interleavings import HEAD, done
from tests.sim.ports import Crash, Faults
from tests.sim.world import World

PAGES = (
    HEAD
    + """
  - step: start
    tool:
      - name: fetch
        kind: http
        url: "http://x/{{ iter.page | default(1) }}"
        spec:
          policy:
            rules:
              - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, delay: 1}}
              - {when: "{{ (iter.page | default(1)) < 5 }}", then: {do: jump, to: fetch, set_iter: {page: "{{ (iter.page | default(1)) + 1 }}"}}}
"""
)


@pytest.mark.parametrize("dies_at", [None, 1, 2, 3, 4, 5])
def test_each_page_has_a_key_and_the_worker_that_takes_over_keeps_it(dies_at: int | None) -> None:
    world = World(Faults(duplicate=0.5))
    died: list[int] = []

    def fetch(call: ToolCall) -> Outcome:
        page = int(call.inputs["url"].rsplit("/", 1)[1])
        if page == dies_at and not died:
            died.append(page)
            raise Crash
        return Outcome.failed("server_error", "busy") if page == 3 and call.attempt == 1 else Outcome.ok(page)

    world.tool = fetch
    done(world, world.start(PAGES).execution_id)
    keys: dict[str, set[str]] = {}
    for call in world.calls:
        keys.setdefault(call.inputs["url"], set()).add(call.task_run_id)
    assert [len(of_page) for of_page in keys.values()] == [1] * 5, "a retry and a takeover keep the key of a page"
    assert len(set.union(*keys.values())) == 5, "each page has its own"
