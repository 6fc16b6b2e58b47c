"""Waiting from milliseconds to a year; and what is no time to wait, said so."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.engine.state import State
from tests.sim import invariants
from tests.sim.ports import SECOND
from tests.sim.world import World

DAY = 86_400


def playbook(task: str, lifetime: int = 366 * DAY) -> str:
    return (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/delay}\n"
        f"executor: {{spec: {{policy: {{lifecycle: {{lifetime_s: {lifetime}}}}}}}}}\n"
        f"workflow:\n  - step: start\n    tool: [{{name: a, {task}}}]\n"
    )


def retrying(delay: str) -> str:
    rule = f"{{when: \"{{{{ outcome.status == 'error' }}}}\", then: {{do: retry, attempts: 2, {delay}}}}}"
    return f'kind: http, url: "http://x", spec: {{policy: {{rules: [{rule}]}}}}'


def waited(world: World, execution_id: str, seconds: float) -> State:
    """Let almost all of the time pass at once, nothing having happened in it, then run to the end."""
    world.run(execution_id, until=lambda: any(r.waits for r in world.state(execution_id).runs.values()))
    begun = world.state(execution_id).started_at
    if seconds > 7_200:
        world.clock.time += int((seconds - 7_200) * SECOND)
    state = world.run(execution_id)
    took = ((state.finished_at or 0) - begun) / SECOND
    assert seconds - 1 <= took <= seconds + 200, f"{took} s for {seconds}"
    world.drain()
    invariants.check(world, execution_id)
    return state


@pytest.mark.parametrize("seconds", [10, 600, 899, 901, 3_600, 90 * DAY, 365 * DAY])
@pytest.mark.parametrize("stream_on", [True, False], ids=["stream", "no stream"])
def test_a_wait_takes_its_time_by_the_queue_or_by_the_due_index(seconds: int, stream_on: bool) -> None:
    world = World(stream_on=stream_on)
    execution_id = world.start(playbook(f"kind: wait, duration: {seconds}")).execution_id
    assert waited(world, execution_id, seconds).status == "completed"


@pytest.mark.parametrize("seconds", [600, 5_000, 200 * DAY])
def test_a_retry_delay_takes_its_time_too(seconds: int) -> None:
    world = World()
    world.tool = lambda call: Outcome.ok(1) if call.attempt == 2 else Outcome.failed("server_error", "no")
    execution_id = world.start(playbook(retrying(f"delay: {seconds}"))).execution_id
    assert waited(world, execution_id, seconds).status == "completed"
    assert [c.attempt for c in world.calls] == [1, 2]


def test_a_wait_until_an_instant_ends_then() -> None:
    world = World()
    at = world.clock.time // SECOND + 4_000
    execution_id = world.start(playbook(f"kind: wait, until: {at}")).execution_id
    waited(world, execution_id, 4_000)
    world = World()
    execution_id = world.start(playbook('kind: wait, until: "2027-01-15T09:00:00+01:00"')).execution_id
    assert world.run(execution_id).status == "completed"
    assert "StepSuspended" not in [e.name for c in world.store.streams.values() for x in c for e in x.events], "it has passed"


@pytest.mark.parametrize(
    "when",
    [
        'duration: "{{ -1 }}"',
        "duration: \"{{ 'nan' }}\"",
        "duration: \"{{ 'inf' }}\"",
        'duration: "{{ -0.5 }}"',
        'duration: "{{ 1e30 }}"',
        "duration: \"{{ '9999d' }}\"",
        "duration: \"{{ 'soon' }}\"",
        'duration: "{{ true }}"',
        'duration: "{{ [1] }}"',
        "until: \"{{ 'nan' }}\"",
        "until: \"{{ 'inf' }}\"",
        "until: 1e30",
        "until: \"{{ 'tomorrow' }}\"",
        "until: true",
        "until: \"{{ '2026-13-01' }}\"",
        'until: "9999-12-31T23:59:59"',
    ],
)
def test_an_invalid_wait_time_is_refused_with_the_reason(when: str) -> None:
    world = World()
    execution_id = world.start(playbook(f"kind: wait, {when}")).execution_id
    failure = world.run(execution_id).failure
    assert failure is not None
    assert failure["kind"] in ("schema", "limit")
    assert failure["task"] == "a"


@pytest.mark.parametrize("delay", ["{{ 'x' }}", "{{ -3 }}", "{{ 1e300 }}", "{{ 'nan' }}", "{{ 'inf' }}", "{{ [1] }}"])
def test_an_invalid_retry_delay_fails_the_task_with_the_reason(delay: str) -> None:
    world = World()
    world.tool = lambda call: Outcome.failed("server_error", "no")
    source = playbook(retrying(f'delay: "{delay}"'))
    failure = world.run(world.start(source).execution_id).failure
    assert failure is not None
    assert failure["kind"] == "schema"
    assert len(world.calls) == 1


def test_a_delay_that_grows_beyond_a_year_stays_at_a_year() -> None:
    from noetl_core.dsl.model import Then
    from noetl_core.engine.pipelines.policy import MAX_DELAY_S, delay_of
    from noetl_core.expr import Scope

    then = Then("retry", delay=3_600, backoff="exponential")
    delays = [delay_of(then, n, "k", Scope({})) for n in range(1, 5_000)]
    assert delays == sorted(delays)
    assert delays[-1] == MAX_DELAY_S


@pytest.mark.parametrize(("lifetime", "wait"), [(3_600, 3_700), (30 * DAY, 31 * DAY), (DAY, 365 * DAY)])
def test_a_wait_beyond_the_lifetime_fails_at_once_and_names_lifetime_s(lifetime: int, wait: int) -> None:
    world = World()
    begun = world.clock.time
    state = world.run(world.start(playbook(f"kind: wait, duration: {wait}", lifetime)).execution_id)
    assert state.failure is not None
    assert state.finished_at is not None
    assert state.failure["kind"] == "limit"
    assert "lifetime_s" in state.failure["message"]
    assert (state.finished_at - begun) / SECOND < 60


def test_a_callback_that_nobody_answers_ends_with_the_executions_life() -> None:
    world = World()
    execution_id = world.start(playbook("kind: callback, timeout: 60d", 10 * DAY)).execution_id
    world.run(execution_id, until=lambda: any(r.waits for r in world.state(execution_id).runs.values()))
    world.clock.time += 10 * DAY * SECOND
    state = world.run(execution_id)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "timeout")
    assert "lived longer" in state.failure["message"]


@pytest.mark.parametrize("seconds", ["{{ 'nan' }}", "{{ -1 }}", "{{ 0.5 }}", "{{ 'soon' }}"])
def test_a_heartbeat_that_is_invalid_or_below_one_second_is_refused(seconds: Any) -> None:
    world = World()
    state = world.run(world.start(playbook(f'kind: callback, heartbeat: "{seconds}"')).execution_id)
    assert state.failure is not None
    assert state.failure["kind"] == "schema"
