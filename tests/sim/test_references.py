"""References that lead nowhere or too far: the author's error, clear and final, never a redelivery."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.results import FileResultStore
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.needs import Need, NeedValues
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import Commit, StreamId
from noetl_core.log.stored_values import Family, FamilyResults, Values
from noetl_core.ports import NotFound
from noetl_core.tools.base import ToolCall
from tests.raw_events import stored
from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/refs}\nworkflow:\n"
GUARD = (
    HEAD
    + """
  - step: start
    tool: [{name: a, kind: http, url: "http://x"}]
    next: {arcs: [{step: end, when: "{{ event.result.rows | length > 0 }}"}]}
  - step: end
    tool: [{name: z, kind: noop}]
"""
)
GUARD_ARGS = GUARD.replace("event.result.rows | length > 0", "true").replace(
    '}}"}]}', '}}", args: {x: "{{ [event.result.rows[0]] }}"}}]}'
)
INPUT = (
    HEAD
    + """
  - step: start
    tool:
      - {name: a, kind: http, url: "http://x"}
      - {name: b, kind: noop, args: {n: "{{ _prev.rows[0] }}"}}
"""
)
LOOP = (
    HEAD
    + """
  - step: start
    tool: [{name: a, kind: http, url: "http://x"}]
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ steps.start.result }}", iterator: i, spec: {mode: parallel, policy: {exec: distributed}}}
    tool: [{name: z, kind: noop, args: {v: "{{ iter.i }}"}}]
"""
)
CHOOSE = (
    HEAD
    + """
  - step: start
    tool:
      - name: a
        kind: http
        url: "http://x"
        spec: {policy: {rules: [{when: "{{ outcome.result.rows[0] == 'mine' }}", then: {do: continue, set_ctx: {r: "{{ outcome.result }}"}}}]}}
    next: {arcs: [{step: end, args: {n: "{{ ctx.r.rows }}"}}]}
  - step: end
    spec: {policy: {admit: {rules: [{when: "{{ args.n == ['mine'] }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: [{name: z, kind: noop, args: {v: "{{ ctx.r.rows }}"}}]
"""
)
PARENT = (
    HEAD
    + """
  - step: start
    tool:
      - {name: large, kind: http, url: "http://x"}
      - {name: call, kind: playbook, path: sim/large, args: {given: "{{ large }}"}}
      - {name: seen, kind: noop, args: {mine: "{{ large[0] | length }}", back: "{{ [call[0] | length, call[1] | length] }}"}}
"""
)
CHILD = (
    HEAD.replace("sim/refs", "sim/large")
    + """
  - step: start
    tool:
      - {name: large, kind: http, url: "http://x"}
      - {name: both, kind: noop, args: "{{ [large[0], workload.given[0]] }}"}
"""
)
REQUEST = Commit(StreamId("1"), 0, 1, "n", (stored("PlaybookExecutionRequested", 1, {}),))


def ref(key: str, size: Any = 10, body: bytes = b"", **more: Any) -> dict[str, Any]:
    return {
        "kind": "result_ref",
        "store": "s3",
        "key": key,
        "size": size,
        "checksum": f"sha256:{sha256(body).hexdigest()}",
        **more,
    }


def answering(world: World, key: str, size: Any = 10, **more: Any) -> None:
    """Every tool answers with a reference to `key`, under the execution's own prefix unless it names another; it knows what stands
    there, as who stored it would."""

    def answer(call: ToolCall) -> Outcome:
        own = key.replace("OWN", call.execution_id)
        return Outcome.ok(ref(own, size, world.results.objects.get(own, b""), **more))

    world.tool = answer


@pytest.mark.parametrize("playbook", [GUARD, INPUT])
@pytest.mark.parametrize("body", [None, b"{not json"])
def test_a_reference_to_a_missing_or_invalid_object_fails_the_execution_with_the_reason(
    playbook: str, body: bytes | None
) -> None:
    world = World()
    answering(world, "OWN/results/none.json")
    execution_id = world.start(playbook).execution_id
    if body is not None:
        world.results.objects[f"{execution_id}/results/none.json"] = body
    state = world.run(execution_id, limit=400)
    assert state.status == "failed"
    assert state.failure is not None
    assert state.failure["kind"] == "template"
    assert f"{execution_id}/results/none.json" in state.failure["message"]


def test_a_guard_over_a_gigabyte_is_refused_without_loading_it() -> None:
    world = World()
    answering(world, "OWN/results/none.json", 1 << 30)
    state = world.run(world.start(GUARD).execution_id, limit=400)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "limit")


@pytest.mark.parametrize("size", [1, "much", None, True, [1]], ids=str)
def test_a_reference_that_lies_about_its_size_loads_no_more_than_the_limit(size: Any) -> None:
    world = World()
    answering(world, "OWN/results/large.json", size)
    execution_id = world.start(GUARD).execution_id
    world.results.objects[f"{execution_id}/results/large.json"] = b"[" + b" " * (9 * 1024 * 1024) + b"]"
    state = world.run(execution_id, limit=400)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "limit")


SECRET = b'{"rows": ["of somebody else"]}'
FOREIGN = ["1/results/r.json", "not-a-number/r.json", "r.json", "/etc/passwd", "../1/results/r.json", "\u0661/results/r.json"]


@pytest.mark.parametrize("key", FOREIGN)
@pytest.mark.parametrize("more", [{}, {"schema_hint": "manifest"}], ids=["plain", "manifest"])
def test_a_response_that_looks_like_a_reference_to_somebody_elses_object_is_plain_data(key: str, more: dict[str, Any]) -> None:
    """A called service decides what it answers; it must not decide what the engine reads."""
    for playbook, ends in ((GUARD, "completed"), (INPUT, "failed"), (LOOP, "completed"), (CHOOSE, "completed")):
        world = World()
        world.results.objects[key] = SECRET
        world.store.streams[StreamId("1")] = [REQUEST]
        world.tool = lambda call: Outcome.ok(ref(key, rows=["mine"]) if call.task == "a" and key else call.inputs.get("args"))
        if playbook is INPUT:
            world.tool = lambda call: Outcome.ok(ref(key))
        state = world.run(world.start(playbook).execution_id, limit=800)
        assert state.status == ends, state.failure
        log = repr(world.store.streams) + repr([c.inputs for c in world.calls])
        assert "of somebody else" not in log


@pytest.mark.parametrize(
    "key", ["{own}/../1/results/r.json", "{own}/x/../../1/results/r.json", "{own}/./store/r", "{own}//store/r"]
)
def test_a_key_with_a_path_traversal_is_not_an_object_of_the_family(key: str, tmp_path: Path) -> None:
    """Folders, and servers that tidy paths up, would give the object of execution 1."""
    world = World()
    own = world.start(GUARD).execution_id
    files = FileResultStore(tmp_path)
    for place in ("1/results/r.json", f"{own}/x/y", f"{own}/store/r"):
        files.put(place, SECRET)
    family = Family(world.store, own)
    assert family.has(f"{own}/store/r") and not family.has(key.format(own=own))
    for read in (FamilyResults(files, family, own).get, FamilyResults(files, family, own).url, files.get):
        with pytest.raises(NotFound):
            read(key.format(own=own))


def test_tools_read_no_objects_of_other_executions() -> None:
    world = World()
    world.results.objects["1/results/r.json"] = SECRET
    world.store.streams[StreamId("1")] = [REQUEST]
    refused = []

    def reader(call: ToolCall) -> Outcome:
        assert call.results is not None
        for attempt in (
            lambda: call.results.get("1/results/r.json"),
            lambda: call.results.url("1/results/r.json"),
            lambda: call.results.put("1/results/r.json", b"mine"),
        ):
            with pytest.raises(NotFound):
                attempt()
            refused.append(1)
        own = call.results.put(f"{call.execution_id}/store/x.json", b"[1]")
        return Outcome.ok(call.results.get(own["key"]).decode())

    world.tool = reader
    assert world.run(world.start(GUARD.replace("event.result.rows | length > 0", "true")).execution_id).status == "completed"
    assert len(refused) == 6
    assert world.results.objects["1/results/r.json"] == SECRET


def test_references_of_parents_and_children_are_read() -> None:
    world = World()
    world.tool = lambda call: Outcome.ok(["x" * 20_000] if call.task == "large" else call.inputs.get("args"))
    child = parse_playbook(CHILD)
    world.catalog.register("sim/large", child.digest, CHILD, 1)
    state = world.run(world.start(PARENT).execution_id)
    assert state.status == "completed", state.failure
    (last,) = [c for c in world.calls if c.task == "seen"]
    assert last.inputs["args"] == {"mine": 20_000, "back": [20_000, 20_000]}


MANY = (
    HEAD
    + """
  - step: start
    loop: {in: "{{ range(450) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 50, policy: {exec: local}}}
    tool: [{name: a, kind: http, url: "http://x"}]
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: each, when: "{{ event.result | map(attribute='n') | sum == 450 }}"}
        - {step: all, when: "{{ event.result == event.result | reverse | list }}"}
        - {step: none, when: "{% for one in event.result %}{{ one.n if one.n != 1 }}{% endfor %}"}
  - {step: each, tool: [{name: y, kind: noop}]}
  - {step: all, tool: [{name: z, kind: noop}]}
  - {step: none, tool: [{name: w, kind: noop}]}
"""
)


def test_a_guard_goes_through_hundreds_of_references_in_a_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round restarts the decision, and the number of rounds is bounded."""
    asked: list[int] = []
    supply = Values.supply

    def counted(values: Values, known: dict[Need, Any], missing: NeedValues) -> None:
        asked.append(len(missing.needs))
        supply(values, known, missing)

    monkeypatch.setattr(Values, "supply", counted)
    world = World()
    world.tool = lambda call: Outcome.ok({"n": 1, "rows": ["x" * 100] * 100})
    execution_id = world.start(MANY).execution_id
    state = world.run(execution_id, limit=100)
    assert (state.status, state.failure) == ("completed", None)
    assert state.step("each").visits == state.step("all").visits == 1 and state.step("none").visits == 0
    assert sum(asked) >= 450 and len(asked) < 10


DEEP = b'{"rows": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
NO_VALUES = {
    "deeper than a reader goes": (DEEP, {}),
    "lines deeper than a reader goes": (DEEP, {"format": "jsonl"}),
    "not a number": (b'{"rows": [NaN]}', {}),
    "more than a number": (b'{"rows": [1e999]}', {}),
    "half a character": (b'{"rows": ["\\ud800"]}', {}),
    "a manifest that is none": (b'{"rows": [1]}', {"schema_hint": "manifest"}),
    "a manifest of numbers": (b"[1, 2]", {"schema_hint": "manifest"}),
    "a manifest of nothing": (b'[{"run": "r"}]', {"schema_hint": "manifest"}),
    "a manifest of odd places": (b'[{"run": [], "seq": {}}]', {"schema_hint": "manifest"}),
    "a manifest of no lists": (b'[{"result": 7}]', {"schema_hint": "manifest"}),
}
"""Contents of objects that the engine did not write: an upload, or the target of a reference in an answer."""


@pytest.mark.parametrize("playbook", [GUARD, INPUT, LOOP, GUARD_ARGS], ids=["guard", "input", "loop", "args"])
@pytest.mark.parametrize("what", NO_VALUES)
def test_an_object_without_a_value_fails_its_readers_and_raises_nowhere(playbook: str, what: str) -> None:
    world = World()
    body, more = NO_VALUES[what]
    answering(world, "OWN/results/none.json", **more)
    execution_id = world.start(playbook).execution_id
    world.results.objects[f"{execution_id}/results/none.json"] = body
    state = world.run(execution_id, limit=400)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "template")
    assert f"{execution_id}/results/none.json" in state.failure["message"]


@pytest.mark.nightly
def test_a_guard_over_a_manifest_reads_no_more_than_its_limit() -> None:
    """Each of its pages is small enough, and there are as many as it likes to name."""
    world = World()
    answering(world, "OWN/results/many.json", schema_hint="manifest")
    execution_id = world.start(GUARD).execution_id
    body = b"[" + b"1," * 2_000_000 + b"1]"
    page = ref(f"{execution_id}/results/page.json", 10, body)
    world.results.objects[f"{execution_id}/results/page.json"] = body
    world.results.objects[f"{execution_id}/results/many.json"] = json.dumps([{"result": page}] * 1_000).encode()
    state = world.run(execution_id, limit=400)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "limit")
