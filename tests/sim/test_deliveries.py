"""Deliveries from outside, under faults: each starts one execution of every trigger that takes it, whatever is killed, and
however often it comes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from noetl_core.control.catalog import versions
from noetl_core.control.catalog.registration import register
from noetl_core.control.lifecycle.operate import NotNow
from noetl_core.control.triggers.deliveries import Deliveries, Delivery, NobodyTakes, UploadDelivery
from noetl_core.control.triggers.notifications import EventDelivery, QueueDelivery
from noetl_core.control.triggers.operate import fire_refused
from noetl_core.engine.state import State
from noetl_core.engine.statuses import TERMINAL
from noetl_core.log.stored_values import Values
from noetl_core.ports import NotFound, PortError, Upload, WebhookDelivery
from tests.properties import crash_points, some
from tests.sim import invariants
from tests.sim.ports import SECOND, Crash, Faults
from tests.sim.world import World

BUCKET = "inbox"


def playbook(path: str, trigger: str, result: str = "{{ workload.got }}", got: str = "{{ trigger.event }}") -> str:
    return f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: taker, path: {path}}}
executor: {{spec: {{triggers: [{{{trigger}, payload: {{got: "{got}"}}}}]}}}}
workload: {{got: null}}
workflow:
  - step: only
    tool: {{kind: noop, args: {{x: "{result}"}}}}
"""


EVENT = "event: {source: [shop], detail: {total: [{numeric: ['>', 0]}]}}"
QUEUE = "queue: {name: orders, match: {body: {n: [{exists: true}]}}}"
WEBHOOK = "webhook: {form: github, credential: hooks/x}"
UPLOAD = "upload: {prefix: uploads/in/, suffix: .json}"


def event(n: int, pad: int = 0) -> EventDelivery:
    detail = {"total": n, "pad": "x" * pad}
    return EventDelivery(
        {"id": f"e-{n}", "source": "shop", "detail-type": "Placed", "time": "2026-11-22T00:00:00Z", "detail": detail}
    )


@dataclass
class SimInbox:
    """`Inbox` over objects in memory."""

    world: World
    objects: dict[str, bytes] = field(default_factory=dict)

    def put(self, key: str, body: bytes) -> UploadDelivery:
        self.objects[key] = body
        return UploadDelivery(Upload(BUCKET, key, len(body), version_id="v1", at=1), self)

    def read(self, upload: Upload) -> bytes:
        return self.world.faults.around(lambda: self._found(upload))

    def copy(self, upload: Upload, key: str) -> Mapping[str, Any]:
        return self.world.results.put(key, self.read(upload))

    def reject(self, upload: Upload, error: Mapping[str, Any]) -> None:
        raise AssertionError("what triggers refuse stays where it is")

    def _found(self, upload: Upload) -> bytes:
        if upload.key not in self.objects:
            raise NotFound(upload.key)
        return self.objects[upload.key]


def deliver(world: World, delivery: Delivery, times: int = 2) -> None:
    """As a queue does: at least once (`times`), and again until it was taken."""
    done = 0
    while done < times:
        control = world.random.choice(world.controls)
        try:
            Deliveries(control, BUCKET).take(delivery)
            done += 1
        except (Crash, PortError):
            world._restart_control()


def registered(world: World, *texts: str) -> None:
    for text in texts:
        while True:
            try:
                register(world.random.choice(world.controls), text)
                break
            except (Crash, PortError):
                world._restart_control()


def executions(world: World) -> list[str]:
    return sorted({stream.execution_id for stream in world.store.streams})


def results(world: World) -> list[Any]:
    """Let everything end; the results of all executions, each of whose histories holds what must always hold."""
    world.run("", until=lambda: all(world.state(e).status in TERMINAL for e in executions(world)))
    world.faults.quiet = True
    world.drain()
    found = []
    for execution_id in executions(world):
        state = world.state(execution_id)
        assert state.status == "completed", state.failure
        invariants.check(world, execution_id)
        found.append(_result(world, state))
    return found


def _result(world: World, state: State) -> Any:
    return Values(world.store, world.results, state.execution_id).at(state.result)["x"]


def test_each_kind_of_delivery_starts_its_playbooks_and_is_visible_to_templates() -> None:
    world = World()
    inbox = SimInbox(world)
    registered(
        world,
        playbook("a", EVENT, got="{{ trigger.event.detail.total }}"),
        playbook("b", QUEUE, got="{{ trigger.event.body.n }}"),
        playbook("c", WEBHOOK, "{{ trigger.kind }} {{ trigger.id }} {{ workload.got }}", got="{{ trigger.event.body.n }}"),
        playbook("d", UPLOAD, "{{ trigger.event.object.n }} {{ trigger.event.key }}", got="{{ trigger.event.object }}"),
    )
    deliver(world, event(7))
    deliver(world, QueueDelivery("orders", "m1", {"body": {"n": 8}}, SECOND))
    deliver(world, WebhookDelivery("c", "webhook", "guid", {"headers": {}, "body": {"n": 9}}, SECOND))
    deliver(world, inbox.put("uploads/in/a.json", b'{"n": 10}'))
    assert Counter(map(str, results(world))) == Counter(["7", "8", "webhook guid 9", "10 uploads/in/a.json"])
    assert [f.result for name in "abcd" for f in world.triggers.fired.values() if f.path == name] == ["started"] * 4


def test_several_playbooks_take_the_same_delivery_each_once_and_others_do_not() -> None:
    world = World()
    registered(world, *(playbook(p, EVENT) for p in ("one", "two")), playbook("other", "event: {source: [else]}"))
    for n in (0, 1, 2):  # the first does not match
        deliver(world, event(n))
    assert Counter(r["id"] for r in results(world)) == Counter({"e-1": 2, "e-2": 2})


def test_a_large_event_is_stored_once_and_reads_like_its_value() -> None:
    world = World()
    taker = playbook(
        "a", EVENT, "{{ trigger.event.detail.total }} {{ workload.got }}", got="{{ trigger.event.detail.pad | length }}"
    )
    registered(world, taker, playbook("b", EVENT, "{{ workload.got.detail.total }}"))
    deliver(world, event(3, pad=50_000))
    assert sorted(map(str, results(world))) == ["3", "3 50000"]
    assert sum(b"x" * 50_000 in body for body in world.results.objects.values()) == 2, "each execution has its own"
    first = [c for commits in world.store.streams.values() for c in commits if c.seq == 0]
    assert all(len(json.dumps([e.data for e in c.events], default=str)) < 8_000 for c in first)


@pytest.mark.sized
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_port_call_of_a_delivery_is_survived(after: bool) -> None:
    def run(faults: Faults) -> World:
        world = World(faults)
        inbox = SimInbox(world)
        by_id = "{{ trigger.event.id }}"
        registered(
            world, playbook("a", EVENT, by_id), playbook("b", UPLOAD, "{{ trigger.event.object.n }}"), playbook("c", EVENT, by_id)
        )
        deliver(world, event(1, pad=9_000))
        deliver(world, inbox.put("uploads/in/a.json", b'{"n": 10}'))
        assert sorted(map(str, results(world))) == ["10", "e-1", "e-1"]
        return world

    points = run(Faults()).faults.calls
    assert points > 40
    for point in crash_points(points, after):
        run(Faults(crash_at=point, crash_after=after))


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(6), 3))
def test_deliveries_that_come_twice_under_faults_start_one_execution_each(seed: int) -> None:
    world = World(
        Faults(seed, crash=0.01, throttle=0.02, lost_answer=0.05, duplicate=0.2, lose_record=0.05, delay=0.2), routers=2
    )
    inbox = SimInbox(world)
    registered(
        world, playbook("a", EVENT, "{{ trigger.event.detail.total }}"), playbook("u", UPLOAD, "{{ trigger.event.object.n }}")
    )
    amount = 20
    for n in range(1, amount + 1):
        deliver(world, event(n))
        deliver(world, inbox.put(f"uploads/in/{n}.json", json.dumps({"n": -n}).encode()))
    world.run("", 200_000, until=lambda: all(world.state(e).status in TERMINAL for e in executions(world)))
    assert sorted(results(world)) == sorted([*range(-amount, 0), *range(1, amount + 1)])
    invariants.faults_happened(world)


@pytest.mark.nightly
def test_a_thousand_uploads_each_notified_twice_are_a_thousand_executions_each_with_its_own_object() -> None:
    world = World()
    inbox = SimInbox(world)
    registered(world, playbook("u", UPLOAD, "{{ trigger.event.object.n }}"))
    told = [inbox.put(f"uploads/in/{n}.json", json.dumps({"n": n}).encode()) for n in range(1_000)]
    for delivery in [*told, *reversed(told)]:
        deliver(world, delivery, times=1)
    assert len(executions(world)) == 1_000
    while world.records or world.queue.messages:
        world.deliver_all()
    assert sorted(_result(world, world.state(e)) for e in executions(world)) == list(range(1_000))


def test_a_delivery_after_another_version_was_registered_is_still_the_same() -> None:
    world = World()
    registered(world, playbook("a", EVENT, "first {{ trigger.event.id }}"))
    deliver(world, event(1), times=1)
    registered(world, playbook("a", EVENT, "second {{ trigger.event.id }}"))
    deliver(world, event(1), times=1)
    deliver(world, event(2), times=1)
    assert sorted(results(world)) == ["first e-1", "second e-2"]


def test_a_delivery_that_can_never_start_is_refused_once_with_its_content_and_blocks_no_other() -> None:
    world = World()
    broken = playbook("a", EVENT, got="{{ trigger.event.detail.total / 0 }}")
    registered(world, broken, playbook("b", EVENT))
    deliver(world, event(1))
    (refused,) = world.triggers.refusals.values()
    assert (refused.path, refused.code, refused.facts["event"]["id"]) == ("a", "template", "e-1")
    assert [r["id"] for r in results(world)] == ["e-1"]


def test_a_refused_delivery_starts_when_it_is_fired_again_with_a_corrected_trigger() -> None:
    world = World()
    registered(world, playbook("a", EVENT, got="{{ trigger.event.detail.total / 0 }}"))
    deliver(world, event(1, pad=9_000))
    (refused,) = world.triggers.refusals.values()
    registered(world, playbook("a", EVENT, "{{ workload.got }}", got="{{ trigger.event.detail.total / 2 }}"))
    assert fire_refused(world.controls[0], refused.id)["result"] == "started"
    deliver(world, event(1, pad=9_000))
    assert results(world) == [0.5]
    assert world.triggers.refusals == {}


def test_a_delivery_during_a_deletion_of_the_playbook_starts_when_it_is_fired_again() -> None:
    world = World()
    registered(world, playbook("b", QUEUE))
    versions.delete(world.controls[0], "b")
    deliver(world, QueueDelivery("orders", "m1", {"body": {"n": 7}}, SECOND))
    (refused,) = world.triggers.refusals.values()
    assert (refused.code, refused.facts["event"], "was deleted at" in refused.reason) == ("deleted", {"body": {"n": 7}}, True)
    assert fire_refused(world.controls[0], refused.id)["result"] == "refused"
    versions.undelete(world.controls[0], "b")
    assert fire_refused(world.controls[0], refused.id)["result"] == "started"
    assert world.triggers.refusals == {}


def test_an_object_that_could_not_be_read_must_be_put_again() -> None:
    world = World()
    registered(world, playbook("u", UPLOAD))
    deliver(world, UploadDelivery(Upload(BUCKET, "uploads/in/b.json", 1 << 40), SimInbox(world)))
    (refused,) = world.triggers.refusals.values()
    with pytest.raises(NotNow, match="upload it again"):
        fire_refused(world.controls[0], refused.id)
    assert executions(world) == []


def test_a_message_that_no_trigger_reads_stays_in_its_queue_and_one_that_does_not_match_is_dropped() -> None:
    world = World()
    message = QueueDelivery("orders", "m1", {"body": {"other": 1}}, SECOND)
    with pytest.raises(NobodyTakes):
        Deliveries(world.controls[0]).take(message)
    registered(world, playbook("b", QUEUE))
    assert Deliveries(world.controls[0]).take(message) == []
    assert executions(world) == []


def test_an_object_that_is_gone_starts_nothing_and_one_that_is_too_large_is_refused() -> None:
    world = World()
    inbox = SimInbox(world)
    registered(world, playbook("u", UPLOAD))
    gone, large = inbox.put("uploads/in/a.json", b"{}"), Upload(BUCKET, "uploads/in/b.json", 1 << 40)
    inbox.objects.clear()
    deliver(world, gone)
    deliver(world, UploadDelivery(large, inbox))
    assert executions(world) == []
    assert [r.code for r in world.triggers.refusals.values()] == ["too_large"]


@pytest.mark.parametrize(
    "key",
    ["uploads/other/a.json", "uploads/in/a.csv", "triggers/in/a.json", "in/a.json"],
)
def test_an_object_under_another_key_starts_nothing(key: str) -> None:
    world = World()
    registered(world, playbook("u", UPLOAD), playbook("v", "upload: {bucket: scans, prefix: in/}"))
    deliver(world, SimInbox(world).put(key, b"{}"))
    assert executions(world) == []
