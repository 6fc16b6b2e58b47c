"""Every event is stated once: payloads, table, unions and the page agree, and recorded histories are as they say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from noetl_core.engine.fold.control_stream import UnknownEvent, fold
from noetl_core.engine.records import Commit
from noetl_core.engine.state import State
from noetl_core.events import control, redrives
from noetl_core.events.event import LOG_VERSION, Event, new, version_of
from noetl_core.events.page import page
from noetl_core.events.schema import (
    CONTROL_PAYLOADS,
    RUN_PAYLOADS,
    SHAPES,
    declared,
    event_schema,
    keys_of,
    payload_schema,
)
from noetl_core.events.table import (
    BOUNDARIES,
    CONTROL_EVENTS,
    ENDS_RUN,
    EVENTS,
    FIRST_VERSION,
    NEWS,
    OPENS_RUN,
    OPERATED,
    RUN_EVENTS,
    TERMINAL,
    ends_run,
)
from noetl_core.views.reading.cursor import history
from noetl_core.views.reading.envelopes import expand
from tests.golden import logs
from tests.golden.scenarios import SCENARIOS

ROOT = Path(__file__).parents[3]
GOLDEN = sorted(path.stem for path in logs.FOLDER.glob("*.json"))
CLOSED = event_schema(closed=True)


def payloads_of(module: ModuleType) -> dict[str, type]:
    return {kind.__name__: kind for kind in declared(module) if kind.__name__[0] != "_"}


@pytest.mark.parametrize(("modules", "names"), [(CONTROL_PAYLOADS, CONTROL_EVENTS), (RUN_PAYLOADS, RUN_EVENTS)])
def test_each_payload_has_a_row_and_each_row_a_payload(modules: tuple[ModuleType, ...], names: frozenset[str]) -> None:
    payloads = {name: kind for module in modules for name, kind in payloads_of(module).items()}
    assert payloads.keys() == names, "add the missing rows to events/table.py"
    for name, payload in payloads.items():
        assert payload in (EVENTS[name].control, EVENTS[name].run)


EVENT_PY = (ROOT / "layers/noetl_core/noetl_core/events/event.py").read_text()
ENVELOPE_PY = (ROOT / "layers/noetl_core/noetl_core/events/envelope.py").read_text()


def union(name: str, text: str = EVENT_PY) -> list[tuple[str, str]]:
    """The members of a union as they are written: name and payload."""
    members = re.findall(r'(?:Event|Of)\[Literal\["(\w+)"\], ([\w. |]+)\]', text.split(f"    {name} = (")[1].split("    )\n")[0])
    return [(event, payload) for event, payload in members]


@pytest.mark.parametrize(("name", "modules"), [("ControlEvent", CONTROL_PAYLOADS), ("RunEvent", RUN_PAYLOADS)])
def test_the_unions_that_type_checkers_narrow_name_each_payload_once(name: str, modules: tuple[ModuleType, ...]) -> None:
    named = [
        (payload, f"{module.__name__.rpartition('.')[2]}.{payload}") for module in modules for payload in payloads_of(module)
    ]
    assert set(union(name)) == set(named), f"enter the event in the union {name} of events/event.py"
    assert len(union(name)) == len(named), f"the union {name} of events/event.py names an event twice"


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("BoundaryEvent", BOUNDARIES),
        ("TerminalEvent", TERMINAL),
        ("OpeningEvent", OPENS_RUN),
        ("EndingEvent", ENDS_RUN),
        ("Fact", NEWS),
    ],
)
def test_each_union_of_a_type_guard_matches_the_table(name: str, members: frozenset[str]) -> None:
    assert {event for event, _ in union(name)} == members, f"enter the event in the union {name} of events/event.py"
    assert {payload.rpartition(".")[2] for _, payload in union(name)} == members


def test_each_envelope_has_the_payloads_of_its_event() -> None:
    written = {event: set(payload.split(" | ")) for event, payload in union("Envelope", ENVELOPE_PY)}
    declared = {
        name: {f"{p.__module__.rpartition('.')[2]}.{name}" for p in (row.control, row.run) if p is not None}
        for name, row in EVENTS.items()
    }
    assert written == declared, "enter the event in the union Envelope of events/envelope.py"


@pytest.mark.parametrize("name", sorted(CONTROL_EVENTS))
def test_each_control_event_has_an_effect_on_the_state(name: str) -> None:
    """Without one the execution that has it stops for good: `engine.fold.control_stream` refuses what it does not know."""
    event: Any = Event(name, 0, {})
    with suppress(LookupError, StopIteration):  # raised by a function that misses keys of the payload
        try:
            fold(State("1"), event, 0)
        except UnknownEvent:
            pytest.fail(f"write the effect of {name} in a module of engine/fold (`@folds`)")


ANNOUNCED = {"TaskStarted", "StepReleased"}
"""Events of slow tasks, and of a worker that must end. Time decides whether a log has them."""


def test_each_event_is_in_a_golden_history() -> None:
    recorded = {
        (event.name, commit.stream.run_id is None)
        for name in GOLDEN
        for commit in logs.read(name).commits
        for event in commit.events
    }
    declared = {(name, True) for name in CONTROL_EVENTS} | {(name, False) for name in RUN_EVENTS - ANNOUNCED}
    remedy = "write a scenario that records it (tests/golden/scenarios.py), then: python -m tests.golden.record NAME"
    assert declared - recorded == set(), remedy


def test_each_payload_and_shape_has_a_docstring() -> None:
    kinds = [kind for module in (*CONTROL_PAYLOADS, *RUN_PAYLOADS, *SHAPES) for kind in payloads_of(module).values()]
    assert [kind.__name__ for kind in kinds if not kind.__doc__ or not kind.__doc__.strip().endswith(".")] == []


def test_each_link_within_the_page_leads_to_a_section() -> None:
    text = page()
    sections = {re.sub(r"[()]", "", title.lower().replace(" ", "-")) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert set(re.findall(r"\(#([^)]+)\)", text)) - sections == set()


def test_the_page_is_the_generated_one() -> None:
    assert (ROOT / "docs/events.md").read_text() == page(), "python -m noetl_core.events.page docs/events.md"


def test_event_sets_derived_from_the_table_have_the_expected_members() -> None:
    assert {"StepDone", "StepFailed", "LoopChunkDone"} == TERMINAL
    assert TERMINAL | {"StepSuspended"} == BOUNDARIES
    assert {"StepScheduled", "LoopChunkScheduled", "CompensationStarted", "StopStarted"} == OPENS_RUN
    assert {"ExecutionPaused", "ExecutionResumed", "ExecutionCancelled", "ExecutionStuck", "ExecutionRedriven"} == OPERATED
    assert EVENTS["LoopChunkDone"].event_type == "loop.chunk.done"


@pytest.mark.parametrize("name", EVENTS)
def test_a_commit_needs_the_reader_version_of_its_events(name: str) -> None:
    event: Any = Event(name, 0, {})
    assert version_of([event]) == EVENTS[name].version <= LOG_VERSION, "raise LOG_VERSION (events/event.py) for a new version"


FIRST_EVENTS = (
    "PlaybookExecutionRequested PlaybookRequestEvaluated WorkflowStarted WorkflowFinished PlaybookProcessed ExecutionPaused"
    " ExecutionResumed ExecutionCancelled ExecutionFailing ExecutionStuck ExecutionRedriven CtxPatched TokenEnqueued TokenClaimed"
    " TokenParked TokenExpired StepSkipped JoinClosed NextEvaluated StepScheduled BoundaryRouted StepDone StepFailed LoopStarted"
    " LoopSliced LoopChunkScheduled LoopDone ResumeScheduled TimerFired SignalReceived SignalMatched ChildRequested ChildFinished"
    " CompensationStarted CompensationDone"
)
"""The events of the control stream that every reader of logs knows."""


def test_an_event_that_older_readers_do_not_know_has_a_version_of_its_own() -> None:
    """Otherwise older code would read the commit and fail, instead of waiting for newer code."""
    found = {name for name, event in EVENTS.items() if event.control is not None and event.version == FIRST_VERSION}
    assert found == set(FIRST_EVENTS.split()), "give the new row a `version` (events/table.py): a constant beside the others"


def test_a_boundary_that_suspends_does_not_end_its_run() -> None:
    assert ends_run("BoundaryRouted", {"name": "StepDone"})
    assert not ends_run("BoundaryRouted", {"name": "StepSuspended"})
    assert ends_run("LoopDone", {})
    assert not ends_run("StepScheduled", {})


def test_an_event_is_named_by_its_payload() -> None:
    assert new(control.TokenParked, 5, token="t") == Event("TokenParked", 5, {"token": "t"})


def test_the_schema_of_envelopes_is_a_schema_that_can_be_moved() -> None:
    Draft202012Validator.check_schema(event_schema())
    moved = str(event_schema("#/components/schemas/"))
    assert "#/$defs/" not in moved
    assert "#/components/schemas/Failure" in moved


@cache
def validator(kind: type) -> Draft202012Validator:
    return Draft202012Validator(payload_schema(kind))


def check(commits: Iterable[Commit]) -> None:
    """Each event is of its type: no key missing, none that is not named."""
    for commit in commits:
        for event in commit.events:
            row = EVENTS[event.name]
            kind = row.control if commit.stream.run_id is None else row.run
            assert kind is not None, f"{event.name} is of the other kind of stream"
            validator(kind).validate(json.loads(json.dumps(event.data)))


@pytest.mark.parametrize("name", GOLDEN)
def test_recorded_payloads_have_the_keys_that_their_types_name(name: str) -> None:
    check(logs.read(name).commits)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_payloads_of_today_have_the_keys_that_their_types_name(name: str) -> None:
    world, _, _ = SCENARIOS[name].play(name)
    check(commit for stream in world.store.streams.values() for commit in stream)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_envelopes_fit_their_schema(name: str) -> None:
    store = logs.read(name).world().store
    for execution_id in logs.read(name).executions():
        for envelope in expand(history(store, execution_id), execution_id):
            assert envelope["status"] == "error" or envelope["status"] == EVENTS[envelope["name"]].status
            closed(envelope["name"]).validate(envelope)


@cache
def closed(name: str) -> Draft202012Validator:
    """Return the validator of one event's envelopes: trying each of `oneOf` takes fifty times as long."""
    (own,) = (one for one in CLOSED["oneOf"] if one["properties"]["name"] == {"const": name})
    return Draft202012Validator({**CLOSED, "oneOf": [own]})


def test_envelopes_are_distinguished_by_unique_names() -> None:
    names = [one["properties"]["name"]["const"] for one in CLOSED["oneOf"]]
    assert len(names) == len(set(names)) and set(names) == set(EVENTS)
    assert "name" in CLOSED["required"]


def test_required_keys_are_those_that_are_always_there() -> None:
    required = {key.name: key.required for key in keys_of(control.TokenEnqueued)}
    assert required["token"] and not required["joined"]
    assert not any(key.required for key in keys_of(redrives.Rerun))
