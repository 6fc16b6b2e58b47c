"""Starts by the text of a playbook: a text that was just registered is neither read nor written again, and nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from noetl_core.control.admit import KeyReused, Started, StartRequest, UnknownPool, admit, register
from noetl_core.control.catalog import versions
from noetl_core.control.catalog.versions import Deleted
from noetl_core.control.core import Control
from noetl_core.control.recent_registrations import KEPT, RecentRegistrations
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.ports import PlaybookVersion, TriggerRecord
from noetl_core.runtime.local import LocalWiring
from tests.sim.catalog import SimCatalog
from tests.sim.ports import Crash, Faults
from tests.sim.triggers import SimTriggers
from tests.sim.world import World
from tests.unit.control.versions import PATH, text

SECONDS = 5
HOURLY = text("x").replace("workflow:", 'executor: { spec: { triggers: [{ schedule: "0 * * * *" }] } }\nworkflow:')


@dataclass
class WatchedCatalog(SimCatalog):
    """Records the calls that starts by text make."""

    calls: list[str] = field(default_factory=list)

    def register(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        self.calls.append("register")
        return super().register(path, digest, source, now)

    def pin(self, path: str, digest: str, source: str, now: int) -> PlaybookVersion:
        self.calls.append("pin")
        return super().pin(path, digest, source, now)

    def get(self, path: str, version: int | None = None) -> PlaybookVersion:
        self.calls.append("get")
        return super().get(path, version)

    def by_digest(self, digest: str) -> PlaybookVersion:
        self.calls.append("by_digest")
        return super().by_digest(digest)


@dataclass
class WatchedTriggers(SimTriggers):
    calls: list[str] = field(default_factory=list)

    def triggers(self, path: str | None = None, kind: str | None = None) -> Sequence[TriggerRecord]:
        self.calls.append("triggers")
        return super().triggers(path, kind)


class Stack:
    """Two processes of a stack over one catalog."""

    def __init__(self) -> None:
        self.world = World(Faults())
        self.catalog = self.world.catalog = WatchedCatalog()
        self.triggers = self.world.triggers = WatchedTriggers(self.world.faults)
        self.one, self.other = self.process(), self.process()

    def process(self) -> Control:
        control = self.world.new_control()
        control.registrations = RecentRegistrations(SECONDS)
        return control

    def calls(self) -> list[str]:
        """Return the calls since the last time."""
        made = [*self.catalog.calls, *self.triggers.calls]
        self.catalog.calls.clear()
        self.triggers.calls.clear()
        return made

    def sleep(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)


@pytest.fixture
def stack() -> Stack:
    return Stack()


def start(control: Control, source: str, **more: Any) -> Started:
    return admit(control, StartRequest(playbook=source, **more))


def test_a_text_started_again_soon_does_not_read_the_catalog(stack: Stack) -> None:
    first = start(stack.one, HOURLY)
    assert stack.calls() == ["register", "get", "triggers"]
    again = start(stack.one, HOURLY)
    assert stack.calls() == []
    assert again.playbook == first.playbook
    assert (again.playbook.version, again.created) == (1, True)
    assert stack.world.controls[0].load(again.execution_id).version == 1


def test_a_text_started_soon_after_registration_does_not_read_the_catalog(stack: Stack) -> None:
    register(stack.one, text("a"))
    stack.calls()
    assert start(stack.one, text("a")).playbook.version == 1
    assert stack.calls() == []


def test_after_some_seconds_the_catalog_is_read_again(stack: Stack) -> None:
    start(stack.one, text("a"))
    stack.sleep(SECONDS)
    stack.calls()
    assert start(stack.one, text("a")).playbook.version == 1
    assert "register" in stack.calls()


def test_a_clock_that_was_set_back_keeps_nothing_longer(stack: Stack) -> None:
    start(stack.one, text("a"))
    stack.sleep(-3600)
    stack.calls()
    start(stack.one, text("a"))
    assert "register" in stack.calls()


def test_by_default_the_catalog_is_read_for_each_start(stack: Stack) -> None:
    control = stack.world.new_control()
    for _ in range(2):
        stack.calls()
        start(control, text("a"))
        assert "register" in stack.calls()


def test_the_same_process_sees_another_registration_at_once(stack: Stack) -> None:
    start(stack.one, text("a"))
    register(stack.one, text("b"))
    assert start(stack.one, text("a")).playbook.version == 3, "it is the latest again"
    assert start(stack.one, text("b")).playbook.version == 4


def test_a_registration_of_another_process_is_seen_after_some_seconds(stack: Stack) -> None:
    start(stack.one, text("a"))
    register(stack.other, text("b"))
    soon = start(stack.one, text("a"))
    assert (soon.playbook.version, soon.playbook.digest) == (1, stack.catalog.get(PATH, 1).digest), "the version of this text"
    assert stack.catalog.get(PATH).version == 2, "as if it had started before the other registration"
    assert admit(stack.one, StartRequest(path=PATH)).playbook.version == 2, "a start by path reads the latest"
    stack.sleep(SECONDS)
    assert start(stack.one, text("a")).playbook.version == 3


def test_registering_reads_the_catalog_each_time(stack: Stack) -> None:
    register(stack.one, text("a"))
    register(stack.other, text("b"))
    assert register(stack.one, text("a"))[1].version == 3


def test_a_path_deleted_between_two_starts_is_refused(stack: Stack) -> None:
    start(stack.one, text("a"))
    for process in (stack.one, stack.other):
        versions.delete(process, PATH)
        with pytest.raises(Deleted):
            start(stack.one, text("a"))
        versions.undelete(process, PATH)
        assert start(stack.one, text("a")).playbook.version == 1


def test_a_registration_that_died_before_its_triggers_were_installed_is_completed(stack: Stack) -> None:
    stack.triggers.faults.crash_at = stack.triggers.faults.calls + 1
    with pytest.raises(Crash):
        start(stack.one, HOURLY)
    stack.triggers.faults.crash_at = None
    assert not stack.triggers.records
    start(stack.one, HOURLY)
    assert [record.path for record in stack.triggers.records.values()] == [PATH]


def test_a_text_that_may_not_be_registered_is_pinned_once(stack: Stack) -> None:
    first = start(stack.one, text("a"), registers=False)
    assert stack.calls() == ["pin", "by_digest"]
    again = start(stack.one, text("a"), registers=False)
    assert stack.calls() == []
    assert first.playbook == again.playbook
    assert again.playbook.version == 0
    assert not stack.catalog.by_path


def test_rights_decide_for_each_start(stack: Stack) -> None:
    assert start(stack.one, text("a"), registers=False).playbook.version == 0
    assert start(stack.one, text("a"), registers=True).playbook.version == 1, "a caller with the right registers the same text"
    assert start(stack.one, text("a"), registers=False).playbook.version == 1, "the content is registered now"
    assert start(stack.one, text("b"), registers=True).playbook.version == 2
    versions.delete(stack.one, PATH)
    assert start(stack.one, text("b"), registers=False).playbook.version == 2, "a pinned text is not a start of the path"
    with pytest.raises(Deleted):
        start(stack.one, text("b"), registers=True)


def test_an_invalid_text_is_refused_each_time(stack: Stack) -> None:
    for _ in range(2):
        with pytest.raises(InvalidPlaybook, match="nowhere"):
            start(stack.one, text("a") + "    next: { arcs: [{ step: nowhere }] }\n")
    assert stack.calls() == []


def test_pools_are_checked_for_each_start(stack: Stack) -> None:
    start(stack.one, text("a"))
    stack.one.pools = frozenset({"gpu"})
    with pytest.raises(UnknownPool):
        start(stack.one, text("a"))


def test_idempotency_keys_hold(stack: Stack) -> None:
    first = start(stack.one, text("a"), idempotency_key="k")
    again = start(stack.one, text("a"), idempotency_key="k")
    assert (again.execution_id, again.created) == (first.execution_id, False)
    for other in ({"playbook": text("b")}, {"playbook": text("a"), "payload": {"x": 1}}):
        with pytest.raises(KeyReused):
            admit(stack.one, StartRequest(**other, idempotency_key="k"))


def test_strictness_is_of_each_start(stack: Stack) -> None:
    assert not stack.one.load(start(stack.one, text("a")).execution_id).strict
    assert stack.one.load(start(stack.one, text("a"), strict=True).execution_id).strict


@pytest.mark.parametrize("seconds", [0, SECONDS])
def test_two_starts_of_a_new_text_at_the_same_moment_are_of_one_version(tmp_path: Path, seconds: float) -> None:
    with closing(LocalWiring(tmp_path / "runs.db")) as local:
        local.control.registrations = RecentRegistrations(seconds)
        for n in range(1, 6):
            both = Barrier(4)

            def begin(_: int, source: str = HOURLY + f"# {n}\n", both: Barrier = both) -> PlaybookVersion:
                both.wait()
                return start(local.control, source).playbook

            with ThreadPoolExecutor(4) as pool:
                started = list(pool.map(begin, range(4)))
            assert {version.version for version in started} == {n}
            assert [version.version for version in local.catalog.versions(PATH)] == list(range(1, n + 1))
            assert [record.version for record in local.triggers.triggers(PATH)] == [n]


def test_recent_registrations_are_bounded_and_keep_the_latest_version() -> None:
    recent = RecentRegistrations(SECONDS)
    versions = [PlaybookVersion(f"p/{n}", 1, f"d{n}", "", 0) for n in range(KEPT + 1)]
    for version in versions:
        recent.registered(version, 0)
        recent.stored(version, 0)
    assert [recent.latest("p/0", "d0", 1), recent.pinned("d0", 1)] == [None, None]
    assert [recent.latest("p/1", "d1", 1), recent.pinned("d1", 1)] == [versions[1], versions[1]]
    later = PlaybookVersion("p/1", 2, "later", "", 0)
    recent.registered(later, 0)
    recent.registered(versions[1], 0)  # by a thread that was slower
    assert [recent.latest("p/1", "d1", 1), recent.latest("p/1", "later", 1)] == [None, later]
