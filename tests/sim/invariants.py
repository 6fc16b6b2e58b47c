"""The invariants of an execution, by number, asserted on a whole log.

* I1: every stream is dense from 0, and its commits never change.
* I2: the fold of the log equals the stored snapshot, from any snapshot.
* I3: each step run, and each loop index, has exactly one terminal event; each attempt of a task has at most one
  `TaskProcessed`; `LoopDone` comes after all of them.
* I4: the iterations in progress never exceed `max_in_flight`.
* I5: a run schedules and commits nothing after the terminal event of the execution, until it is redriven.
* I6: the arcs of a boundary are evaluated once; an exclusive router selects at most one.
* I7: once faults stop, every execution reaches a terminal state or an explained wait within a limited time.
* I8: ctx is the fold of its patches.
* I9: every scheduled step run is commanded, through a queue or as the answer to the ask for which it is claimed.
* I10: no secret, nor its base64, URL, hex or reversed form, is anywhere outside the worker's memory.
* I11: the same playbook, inputs and tool outcomes give the same events locally and on the stack, except for ids, times and
  the order of concurrent runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from noetl_core.engine.dispatch.effects import next_reconciliation
from noetl_core.engine.fold.control_stream import REDUCER, fold_commits
from noetl_core.engine.records import StreamId, control_events
from noetl_core.engine.routing.limit_requests import execution_of
from noetl_core.engine.snapshots import restore
from noetl_core.engine.state import State
from noetl_core.log.codec import encode_events
from noetl_core.views.reading.cursor import history
from noetl_core.views.reading.envelopes import expand
from tests.raw_events import Stored
from tests.sim.world import World

TERMINAL_RUN = {"StepDone", "StepFailed", "LoopChunkDone"}


def check(world: World, execution_id: str) -> None:
    """Assert all invariants that can be checked when the execution is at rest."""
    assert not world.violations
    streams = {s: c for s, c in world.store.streams.items() if s.execution_id == execution_id}
    control = [(c.seq, e) for c in streams[StreamId(execution_id)] for e in c.events]
    i1_streams_are_dense(world, execution_id)
    i2_fold_equals_snapshot(world, execution_id)
    i3_one_terminal_each(world, execution_id, [e for _, e in control])
    i5_nothing_after_the_end([e for _, e in control])
    i6_arcs_are_evaluated_once([e for _, e in control])
    i8_ctx_is_the_fold_of_its_patches(world, execution_id, [e for _, e in control])
    i9_every_scheduled_run_was_commanded(world, execution_id, [e for _, e in control])
    every_compensation_ends_once(control)
    keys_are_those_of_visits(world, execution_id)
    no_lease_is_taken_early(world, execution_id)
    no_claim_is_taken_early(world, execution_id)
    boundaries_are_those_of_the_streams(world, execution_id)
    the_state_counts_what_readers_see(world, execution_id)


def faults_happened(world: World) -> None:
    """Assert that some of the requested faults happened, because a test of faults without faults shows nothing."""
    assert not world.faults.asked or world.faults.seen, (
        f"none of {sorted(world.faults.asked)} happened in {world.faults.calls} calls"
    )


def i1_streams_are_dense(world: World, execution_id: str) -> None:
    for stream, commits in world.store.streams.items():
        if stream.execution_id == execution_id:
            assert [c.seq for c in commits] == list(range(len(commits))), f"I1 {stream}"
            for commit in commits:
                assert encode_events(commit.events) == world.store.body(commit), f"I1 {stream} {commit.seq} has changed"


def i2_fold_equals_snapshot(world: World, execution_id: str) -> None:
    commits = world.store.streams[StreamId(execution_id)]
    whole = asdict(fold_commits(State(execution_id), commits))
    for seq, snap in world.store.snapshots.get(execution_id, {}).items():
        assert (snap.seq, snap.reducer) == (seq, REDUCER)
        resumed = fold_commits(restore(deepcopy(snap)), commits[seq + 1 :])
        assert whole == asdict(resumed), "I2"


def i3_one_terminal_each(world: World, execution_id: str, control: Sequence[Stored]) -> None:
    scheduled = Counter(e.data["run"] for e in control if e.name in ("StepScheduled", "LoopChunkScheduled"))
    assert all(n == 1 for n in scheduled.values()), "I3: a run is scheduled once"
    ended: Counter[str] = Counter()
    for e in control:
        if e.name in ("StepDone", "StepFailed") or (e.name == "BoundaryRouted" and e.data["name"] in TERMINAL_RUN):
            ended[e.data["run"]] += 1
    loops = Counter(e.data["run"] for e in control if e.name == "LoopDone")
    assert all(n == 1 for n in loops.values()), "I3: a loop is done once"
    leads = {e.data["run"] for e in control if e.name == "LoopSliced"}
    for run in scheduled:
        assert ended[run] + (1 if run in leads and loops[run] and not ended[run] else 0) == 1, (
            f"I3: run {run} ended {ended[run]} times"
        )
        commits = world.store.streams.get(StreamId(execution_id, run), [])
        terminal = [e.name for c in commits for e in c.events if e.name in TERMINAL_RUN]
        assert len(terminal) <= 1, f"I3: run {run} has terminal events {terminal}"
        tasks = Counter((e.data["run"], e.data["attempt"]) for c in commits for e in c.events if e.name == "TaskProcessed")
        assert all(n == 1 for n in tasks.values()), f"I3: an attempt of run {run} was recorded twice: {tasks}"


def keys_are_those_of_visits(world: World, execution_id: str) -> None:
    """Assert that a pipeline counts the visits of each task one by one, and that each visit has a key of its own, which its
    retries keep: page 3 has another one than pages 1 and 2, even if another worker took the run over in between."""
    for stream, commits in world.store.streams.items():
        if stream.execution_id != execution_id or stream.run_id is None:
            continue
        visits: dict[tuple[str, tuple[int, ...]], dict[int, str]] = {}
        for event in (e for commit in commits for e in commit.events if e.name == "TaskProcessed" and "visit" in e.data):
            known = visits.setdefault((event.data["task"], tuple(event.data.get("path") or ())), {})
            visit, key = event.data["visit"], event.data["run"]
            newest = max(known, default=visit - 1)  # visits that a redrive keeps are in another stream
            assert visit in (newest, newest + 1), f"visit {visit} of {event.data['task']} follows visit {newest} in {stream}"
            assert known.setdefault(visit, key) == key, f"visit {visit} of {event.data['task']} has two keys in {stream}"
        keys = [key for known in visits.values() for key in known.values()]
        assert len(set(keys)) == len(keys), f"two visits share a key in {stream}"


def no_lease_is_taken_early(world: World, execution_id: str) -> None:
    """Assert that each takeover came after the lease before it had ended, as far as the clocks of two workers agree."""
    for stream, commits in world.store.streams.items():
        if stream.execution_id != execution_id or stream.run_id is None:
            continue
        for before, commit in pairwise(commits):
            first = commit.events[0] if commit.events else None
            if first is not None and first.name == "StepStarted" and first.data.get("takeover"):
                early = before.lease_until - commit.ts
                assert early <= 2 * world.skew_s * 1_000_000, f"{stream} was taken over {early / 1e6:.1f} s early"


def no_claim_is_taken_early(world: World, execution_id: str) -> None:
    """Assert that nobody else has begun a run while the claim to it lived, that a claim answers one ask, which reached the worker of
    the claim, and that the commit which made it routed the boundary of that ask."""
    commits = world.store.streams.get(StreamId(execution_id), [])
    asks = {ask.id: ask for ask in world.asking.asked}
    claims = {
        e.data["run"]: (c, claim)
        for c in commits
        for e in control_events(c)
        if e.name == "StepScheduled" and (claim := e.data.get("claim")) is not None
    }
    assert len({claim["ask"] for _, claim in claims.values()}) == len(claims), "an ask is answered with two runs"
    for run, (scheduled, claim) in claims.items():
        ask = asks[claim["ask"]]
        routed = [(e.data["run"], e.data["seq"]) for e in scheduled.events if e.name == "BoundaryRouted" and e.data.get("asked")]
        assert routed == [(ask.run_id, ask.seq)], f"run {run} is claimed by a commit that did not route the boundary of its ask"
        assert claim["worker"] == ask.worker and claim["until"] <= min(ask.deadline, scheduled.ts + 21 * 1_000_000)
        assert scheduled.events[0].ts <= ask.until, f"run {run} was claimed when its worker had given up"
        first = next(iter(world.store.streams.get(StreamId(execution_id, run), [])), None)
        if first is None or first.events[0].name != "StepStarted" or first.events[0].data["worker"] == claim["worker"]:
            continue
        early = claim["until"] - first.ts
        assert early <= 2 * world.skew_s * 1_000_000, f"{run} was begun {early / 1e6:.1f} s before the claim to it lapsed"
    for ask, command in world.asking.replies:
        if command.execution_id == execution_id:
            made = claims.get(command.run_id)
            assert made is not None and made[1]["ask"] == ask.id, (
                f"run {command.run_id} was given to an ask that has no claim to it"
            )


def boundaries_are_those_of_the_streams(world: World, execution_id: str) -> None:
    """Assert that each boundary that was routed is in the stream of its run, as it was routed."""
    for event in (e for c in world.store.streams.get(StreamId(execution_id), []) for e in c.events if e.name == "BoundaryRouted"):
        stream = world.store.streams.get(StreamId(execution_id, event.data["run"]), [])
        assert len(stream) > event.data["seq"], f"the boundary {event.data} was never written"
        last = stream[event.data["seq"]].events[-1]
        assert last.name == event.data["name"], f"{event.data['name']} was routed, and {last.name} is in the stream"
        errors = [data.get("error") for data in (dict[str, Any](last.data), dict[str, Any](event.data))]
        assert len({None if error is None else error["kind"] for error in errors}) == 1


def i5_nothing_after_the_end(control: Sequence[Stored]) -> None:
    lives: list[list[str]] = [[]]
    for e in control:
        if e.name == "ExecutionRedriven":
            lives.append([])
        lives[-1].append(e.name)
    for n, names in enumerate(lives):
        if "PlaybookProcessed" in names or n < len(lives) - 1:
            assert names[-2:] == ["WorkflowFinished", "PlaybookProcessed"], f"I5: {names[-5:]}"
            assert names.count("WorkflowFinished") == 1
            assert names.count("PlaybookProcessed") == 1


def i6_arcs_are_evaluated_once(control: Sequence[Stored]) -> None:
    epoch, evaluated = 0, Counter[tuple[int, str]]()
    for e in control:
        epoch = e.data["epoch"] if e.name == "ExecutionRedriven" else epoch
        if e.name == "NextEvaluated":
            evaluated[(epoch, e.data["run"])] += 1
    assert all(n == 1 for n in evaluated.values()), "I6"
    tokens = Counter(e.data["token"] for e in control if e.name == "TokenEnqueued")
    assert all(n == 1 for n in tokens.values()), "I6: a token is made once"


def i8_ctx_is_the_fold_of_its_patches(world: World, execution_id: str, control: Sequence[Stored]) -> None:
    ctx: dict[str, object] = dict(control[0].data.get("ctx") or {})
    for e in control:
        if e.name == "ExecutionRedriven":
            ctx = dict(e.data["ctx"])
        if e.name == "CtxPatched":
            ctx.update(e.data["patch"])
    assert world.state(execution_id).ctx == ctx, "I8"


def i9_every_scheduled_run_was_commanded(world: World, execution_id: str, control: Sequence[Stored]) -> None:
    sent = {c.run_id for c in world.queue.sent if c.execution_id == execution_id}
    sent |= {c.run_id for _, c in world.asking.replies if c.execution_id == execution_id}
    by_server = {e.data["run"] for e in control if e.name in ("StepDone", "StepFailed", "LoopSliced")}
    fenced = {
        s.run_id
        for s, commits in world.store.streams.items()
        if s.execution_id == execution_id and commits and commits[0].events[-1].data.get("source") == "server"
    }
    for e in control:
        if e.name in ("StepScheduled", "LoopChunkScheduled", "CompensationStarted", "StopStarted"):
            assert e.data["run"] in sent | by_server | fenced, f"I9: run {e.data['run']} was never commanded"


def the_state_counts_what_readers_see(world: World, execution_id: str) -> None:
    quiet, world.faults.quiet = world.faults.quiet, True
    state = world.state(execution_id)
    if state.finished:
        seen = sum(1 for _ in expand(history(world.store, execution_id), execution_id))
        assert state.events == seen, "the summary counts other events than the history shows"
    world.faults.quiet = quiet


def every_compensation_ends_once(control: Sequence[tuple[int, Stored]]) -> None:
    begun = [e.data["of"] for _, e in control if e.name == "CompensationStarted"]
    ended = [e.data["of"] for _, e in control if e.name == "CompensationDone"]
    assert len(set(begun)) == len(begun), "a run is compensated once"
    over = any(e.name == "PlaybookProcessed" for _, e in control)
    assert begun == ended or not over, "one after another, each to its end"


def places_are_those_of_the_logs(world: World) -> None:
    """Assert that limits agree with the logs: each holder and waiter is one of a live execution that asked for it, and nobody both
    holds a place and waits for it."""
    states: dict[str, State] = {}

    def asked(holder: str) -> bool:
        execution_id = execution_of(holder)
        if execution_id not in states:
            states[execution_id] = world.state(execution_id)
        state = states[execution_id]
        return not state.finished and holder in state.limits

    for key, record in world.places.held.items():
        line = {waiter.holder for waiter in world.places.queues.get(key, {}).values()}
        assert not line & record.holders.keys(), f"limit {key}: {line & record.holders.keys()} have a place and stand in line"
        assert not (gone := {h for h in line | record.holders.keys() if not asked(h)}), f"limit {key}: {gone} are over"
        assert len(record.holders) <= max(record.most, 1), f"limit {key}: {len(record.holders)} hold places"
        assert not record.displaced, f"limit {key}: {record.displaced} were not displaced"
        assert not line or record.waiting, f"limit {key}: nobody looks at the line of {line}"
        assert not line or len(record.holders) >= record.most, f"limit {key}: there is a free place, and {line} wait"


def no_place_is_left(world: World) -> None:
    assert not any(r.holders or r.waiting or r.displaced for r in world.places.held.values()), world.places.held
    assert not any(world.places.queues.values()), world.places.queues


def what_goes_on_is_due(world: World) -> None:
    """Assert that the sweeper finds every live execution, at the latest when its first timer or deadline is due or a command has
    waited: no older due time has replaced an earlier one."""
    quiet, world.faults.quiet = world.faults.quiet, True
    now = world.clock.time
    for execution_id in {stream.execution_id for stream in world.store.streams}:
        state = world.state(execution_id)
        if state.finished:
            continue
        wakes = [m.visible_at for m in world.queue.messages if m.execution_id == execution_id and m.command is None]
        due = min([*wakes, *([at] if (at := world.index.due_at.get(execution_id)) is not None else [])], default=None)
        assert due is not None, f"{state.path} is {state.status} and never due"
        latest = max(next_reconciliation(world.controls[0].playbook(state.digest), state, now), now + 120 * 1_000_000)
        assert due <= latest, f"{state.path} is due {(due - latest) / 1e6:.0f} s too late"
    world.faults.quiet = quiet
