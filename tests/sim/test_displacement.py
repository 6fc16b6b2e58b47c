"""`cancel_oldest` of steps: the oldest run fails for the newest, once, in every order and despite deaths."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_core.control import fence as fence_module
from noetl_core.control.admit import register
from noetl_core.control.lifecycle.operate import cancel, pause, resume
from noetl_core.control.limits.places import SharedLimits
from noetl_core.ports import LimitRecord
from tests.properties import crash_points, some
from tests.sim import invariants
from tests.sim.concurrency import Server, at_rest, start
from tests.sim.displacement import CALLBACK, HEAD, LIMIT, PLAIN, ROUTED, under_way
from tests.sim.ports import SECOND, Faults
from tests.sim.redrives import again
from tests.sim.shared_limits import SimPlaces
from tests.sim.world import World


def test_the_oldest_run_fails_for_the_newest_and_its_arcs_handle_that() -> None:
    world = World(concurrency=10)
    server = Server(world, seconds=300)
    ids = start(world, ROUTED, 3)
    states = at_rest(world, ids)
    assert [s.status for s in states] == ["completed"] * 3
    assert [s.step("given-up").runs for s in states] == [1, 1, 0]
    assert states[0].last_result is not None
    assert world.places.most_held["shop"] == 1
    assert ids[2] in server.began


def test_the_error_names_the_limit_and_the_newcomer() -> None:
    world = World(concurrency=10)
    Server(world, seconds=300)
    first, second = start(world, PLAIN, 2)
    states = at_rest(world, [first, second])
    assert [s.status for s in states] == ["failed", "completed"]
    failure = states[0].failure
    assert failure is not None
    assert (failure["kind"], failure.get("code"), failure.get("step")) == ("limit", "displaced", "start")
    assert failure["message"] == f"limit shop: execution {second} takes its place"


def test_later_outcomes_of_the_worker_are_not_recorded() -> None:
    world = World(concurrency=10)
    Server(world, seconds=300)
    (first,) = start(world, ROUTED, 1)
    under_way(world, first)
    (second,) = start(world, ROUTED, 1)
    states = at_rest(world, [first, second])
    assert states[0].step("start").status == "error"
    streams = [
        world.names(first, stream.run_id) for stream in world.store.streams if stream.execution_id == first and stream.run_id
    ]
    assert [names[-1] for names in streams if "TaskProcessed" not in names] == ["StepFailed"]


def test_a_holder_that_ends_first_has_ended_and_the_newcomer_has_its_place() -> None:
    """Its worker commits between the look of who displaces it and the fence."""
    world = World(concurrency=10)
    Server(world, seconds=30)
    (first,) = start(world, ROUTED, 1)
    under_way(world, first)
    fence = fence_module.fence_runs

    def late(*args: Any) -> Any:
        while any("StepDone" not in world.names(first, r) for r in world.state(first).runs):
            world.workers.ready()[0]() if world.workers.ready() else setattr(world.clock, "time", min(world.workers.times()))
        return fence(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noetl_core.control.limits.displacement.fence_runs", late)
        (second,) = start(world, ROUTED, 1)
        states = at_rest(world, [first, second])
    assert [s.step("charged").runs for s in states] == [1, 1], "both did their work, one after the other"
    assert world.places.most_held["shop"] == 1


LOOP = (
    HEAD
    + f"""workflow:
  - step: start
    {LIMIT}
    loop: {{in: [1, 2, 3, 4, 5, 6], iterator: i, spec: {{mode: parallel, max_in_flight: 2, policy: {{exec: distributed}}, chunk_size: 1}}}}
    tool: {{name: work, kind: http, url: "http://x"}}
"""
)


def test_a_distributed_loop_is_displaced_with_all_its_chunks() -> None:
    world = World(concurrency=20)
    server = Server(world, seconds=100)
    ids = start(world, LOOP, 1)
    world.run(ids[0], until=lambda: len(server.now) > 0 and len(server.began) >= 2)
    ids += start(world, LOOP, 1)
    states = at_rest(world, ids)
    assert [s.status for s in states] == ["failed", "completed"]
    assert states[0].failure is not None
    assert states[0].failure.get("code") == "displaced"
    assert server.began.count(ids[0]) <= 4, "no chunk begins afterwards"


CALLEE = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: callee, path: sim/callee}\nworkflow:\n  - step: start\n    tool: {name: ask, kind: callback, signal: never}\n"


def test_the_child_that_a_displaced_run_waits_for_is_cancelled_first() -> None:
    world = World(concurrency=10)
    register(world.controls[0], CALLEE)
    calls = PLAIN.replace('kind: http, url: "http://x"', "kind: playbook, path: sim/callee")
    (first,) = start(world, calls, 1)
    world.run(first, until=lambda: any(world.state(c).runs for c in world.state(first).children))
    (child,) = world.state(first).children
    statuses: list[str] = []

    class Seen(SimPlaces):
        def write(self, record: LimitRecord, now: int) -> bool:
            if record.holders and not any(holder.startswith(first) for holder in record.holders):
                statuses.append(world.state(child).status)
            return super().write(record, now)

    world.places = Seen(world.faults, world.places.held, world.places.queues)
    world.controls = [world.new_control()]
    (second,) = start(world, ROUTED, 1)
    states = at_rest(world, [first, second])
    assert [s.status for s in states] == ["failed", "completed"]
    assert set(statuses) == {"cancelled"}, "before another one has its place"


def test_pending_callbacks_and_retries_of_a_displaced_run_end() -> None:
    world = World(concurrency=10)
    (first,) = start(world, CALLBACK, 1)
    world.run(first, until=lambda: any(r.status == "suspended" for r in world.state(first).runs.values()))
    (second,) = start(world, ROUTED, 1)
    states = at_rest(world, [first, second])
    assert states[0].step("given-up").runs == 1
    assert states[1].step("charged").runs == 1


def test_a_waiting_run_is_displaced_too_and_never_begins() -> None:
    """Three newcomers come before anything is carried out. The second displaces the first, and the third the second."""
    world = World(concurrency=10)
    Server(world, seconds=300)
    (first,) = start(world, ROUTED, 1)
    under_way(world, first)
    second, third = start(world, ROUTED, 2)
    assert list(world.places.held["shop"].displaced) == [
        f"{first}/{next(iter(world.state(first).runs))}",
        *world.state(second).limits,
    ]
    states = at_rest(world, [first, second, third])
    assert [s.step("given-up").runs for s in states] == [1, 1, 0]
    assert "http" not in [call.kind for call in world.calls if call.execution_id == second]


def test_a_waiting_run_leaves_at_once_even_if_the_newcomer_gets_its_place_first() -> None:
    world = World(concurrency=10)
    (first,) = start(world, CALLBACK, 1)
    world.run(first, until=lambda: world.state(first).status == "waiting" or bool(world.state(first).runs))
    _, second, _ = ids = [first, *start(world, CALLBACK, 2)]
    began = world.clock.now()
    for execution_id in (first, second):
        world.run(execution_id)
    assert [world.state(x).status for x in ids[:2]] == ["completed"] * 2
    assert world.clock.now() - began < 30 * SECOND, "before the sweep comes by"


def test_a_run_that_is_late_because_its_process_died_displaces_nobody_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(concurrency=10)
    with monkeypatch.context() as dead:
        dead.setattr(SharedLimits, "acquire", lambda *_: None)
        (late,) = start(world, CALLBACK, 1)
    world.clock.time += SECOND
    (newer,) = start(world, CALLBACK, 1)
    world.run(late)
    assert world.state(late).step("given-up").runs == 1
    assert world.state(newer).runs
    cancel(world.controls[0], newer, "no")
    at_rest(world, [late, newer])


def test_a_paused_execution_is_displaced_whether_its_run_waits_or_has_its_place() -> None:
    world = World(concurrency=10)
    Server(world, seconds=300)
    (first,) = start(world, CALLBACK, 1)
    world.run(first, until=lambda: any(r.status == "suspended" for r in world.state(first).runs.values()))
    (granted,) = start(world, ROUTED.replace(", on_limit: cancel_oldest", ""), 1)
    assert world.state(granted).awaits_limit
    pause(world.controls[0], granted)
    cancel(world.controls[0], first, "no")
    world.run(granted, until=lambda: not world.state(granted).awaits_limit)
    state = world.state(granted)
    assert (state.status, len(state.runs), len(state.tokens)) == ("paused", 0, 1), "it has its place, and does not begin"
    (third,) = start(world, ROUTED, 1)
    world.run(third)
    assert world.state(third).step("charged").runs == 1
    assert world.state(granted).status == "paused"
    resume(world.controls[0], granted)
    (state,) = at_rest(world, [granted])
    assert (state.status, state.step("given-up").runs) == ("completed", 1)


def test_branches_of_one_execution_displace_each_other() -> None:
    source = (
        HEAD
        + f"""workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: a}}, {{step: b}}]}}
  - step: a
    {LIMIT}
    tool: {{name: work, kind: http, url: "http://x"}}
    next: {{arcs: [{{step: end, when: "{{{{ true }}}}"}}]}}
  - step: b
    {LIMIT}
    tool: {{name: work, kind: http, url: "http://x"}}
    next: {{arcs: [{{step: end, when: "{{{{ true }}}}"}}]}}
  - step: end
    spec: {{join: all}}
    tool: {{name: done, kind: noop}}
"""
    )
    world = World(concurrency=10)
    Server(world, seconds=300)
    (state,) = at_rest(world, start(world, source, 1))
    assert state.status == "completed"
    assert (state.step("a").status, state.step("b").status, state.step("end").runs) == ("error", "ok", 1)


def test_a_playbook_and_a_step_that_share_a_key() -> None:
    """A displaced execution that holds a place is cancelled as a whole; for a displaced step its run fails."""
    whole = (
        HEAD
        + "executor: {spec: {policy: {concurrency: {key: shop, max: 1, on_limit: cancel_oldest}}}}\n"
        + PLAIN[len(HEAD) :].replace(LIMIT, "spec: {}")
    )
    world = World(concurrency=10)
    Server(world, seconds=300)
    ids = start(world, whole, 1)
    under_way(world, ids[0])
    ids += start(world, ROUTED, 1)
    under_way(world, ids[1])
    ids += start(world, whole, 1)
    states = at_rest(world, ids)
    assert [s.status for s in states] == ["cancelled", "completed", "completed"]
    assert states[1].step("given-up").runs == 1


def test_a_redrive_asks_anew_and_displaces_in_turn() -> None:
    world = World(concurrency=10)
    Server(world, seconds=300)
    first, second = start(world, PLAIN, 2)
    assert [s.status for s in at_rest(world, [first, second])] == ["failed", "completed"]
    world.faults.quiet = False
    (third,) = start(world, PLAIN, 1)
    under_way(world, third)
    again(world, first)
    assert [s.status for s in at_rest(world, [first, third])] == ["completed", "failed"]


@pytest.mark.nightly
def test_two_steps_that_retry_by_their_arcs_end_by_their_visit_limits() -> None:
    """Each displaces the other forever: a limit of visits ends it, and no decision is carried out within another's."""
    limits = "executor: {spec: {policy: {limits: {max_step_visits: 40}}}}\n"
    stubborn = (
        HEAD + limits + PLAIN[len(HEAD) :] + "    next: {arcs: [{step: start, when: \"{{ event.name == 'step.failed' }}\"}]}\n"
    )
    world = World(concurrency=10)
    Server(world, seconds=3000)
    states = at_rest(world, start(world, stubborn, 2))
    assert "failed" in [s.status for s in states]
    assert max(s.step("start").visits for s in states) <= 40


def test_a_wait_that_a_displacement_ends_is_no_deadlock() -> None:
    """The holder of b waits for a, which the newcomer holds; it takes b from it all the same."""
    held = "executor: {spec: {policy: {concurrency: {key: a, max: 1}}}}\n"
    world = World(concurrency=10)
    Server(world, seconds=20)
    register(world.controls[0], CALLEE.replace("metadata", held + "metadata", 1))
    calls = PLAIN.replace('kind: http, url: "http://x"', "kind: playbook, path: sim/callee")
    takes_b = (
        HEAD
        + held
        + PLAIN[len(HEAD) :].replace(
            "- step: start\n",
            '- step: start\n    tool: {name: first, kind: http, url: "http://x"}\n    next: {arcs: [{step: second}]}\n  - step: second\n',
        )
    )
    newcomer = start(world, takes_b, 1)
    holder = start(world, calls, 1)
    world.run(holder[0], until=lambda: bool(world.state(holder[0]).children))
    states = at_rest(world, [*newcomer, *holder])
    assert [s.status for s in states] == ["completed", "failed"]
    assert states[1].failure is not None
    assert states[1].failure.get("code") == "displaced"


def play(world: World, source: str, count: int = 3) -> None:
    ids = start(world, source, count)
    for execution_id in ids:
        world.run(execution_id, limit=50_000)
    states = at_rest(world, ids)
    assert {s.status for s in states} == {"completed"}
    assert states[-1].step("charged").runs == 1, "nobody came after it"
    assert all(s.step("given-up").runs + s.step("charged").runs == 1 for s in states), "each ended in one way"
    assert world.places.most_held["shop"] == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", [ROUTED, CALLBACK], ids=["runs", "waits"])
@pytest.mark.sized
def test_a_crash_at_any_port_call_displaces_nobody_twice_and_loses_no_place(source: str) -> None:
    if source is CALLBACK:  # the last one has to end by itself
        source = source.replace("signal: never", "signal: never, timeout: 600").replace(
            "when: \"{{ event.name == 'step.done' }}\"", "when: \"{{ event.error.code | default('') != 'displaced' }}\""
        )
    calm = World()
    play(calm, source)
    assert calm.faults.calls > 60
    for after in (False, True):
        for point in crash_points(calm.faults.calls, after):
            play(World(Faults(crash_at=point, crash_after=after)), source)


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(10), 4))
def test_any_mix_of_faults_displaces_nobody_twice(seed: int) -> None:
    faults = Faults(seed, crash=0.02, throttle=0.02, lost_answer=0.05, duplicate=0.2, lose_record=0.1, delay=0.2)
    world = World(faults, routers=2)
    play(world, ROUTED, 6)
    invariants.faults_happened(world)


def test_with_the_stream_off_and_without_a_single_wake_the_sweeper_alone_carries_it_out() -> None:
    world = World(stream_on=False)
    world.queue.loses_wakes = True
    play(
        world,
        CALLBACK.replace("signal: never", "signal: never, timeout: 600").replace(
            "event.name == 'step.done'", "event.error.code | default('') != 'displaced'"
        ),
    )


def test_the_sweeper_completes_the_displacement_of_a_cancelled_newcomer() -> None:
    world = World(concurrency=10)
    (first,) = start(world, CALLBACK, 1)
    world.run(first, until=lambda: any(r.status == "suspended" for r in world.state(first).runs.values()))
    (second,) = start(world, ROUTED, 1)
    assert world.places.held["shop"].displaced, "it is decided, and not carried out yet"
    cancel(world.controls[0], second, "no")
    states = at_rest(world, [first, second])
    assert [s.status for s in states] == ["completed", "cancelled"]
    assert states[0].step("given-up").runs == 1


def test_two_concurrent_newcomers_displace_two() -> None:
    """Both look before either has decided: the record's condition lets one of them look again."""
    world = World(concurrency=10)
    Server(world, seconds=3000)
    source = ROUTED.replace("max: 1", "max: 2")
    old = start(world, source, 2)
    for x in old:
        under_way(world, x)
    places, between_them = world.places, list[str]()
    waiters = places.waiters

    def between(key: str, limit: int) -> Any:
        found = waiters(key, limit)
        if limit > 50 and not between_them:
            between_them.append("")
            between_them.extend(start(world, source, 1))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "waiters", between)
        new = start(world, source, 1)
    states = at_rest(world, [*old, *new, *between_them[1:]])
    assert [s.step("given-up").runs for s in states] == [1, 1, 0, 0]
