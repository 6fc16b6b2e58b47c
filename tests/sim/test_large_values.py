"""Templates read parts of large values: a few kilobytes, where loading all would be refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from noetl_core.engine import large_values
from noetl_core.engine.outcome import Outcome
from noetl_core.views.explain.replay import replay
from noetl_core.worker import run_tree, service
from noetl_core.worker.loops import results
from tests.properties import some
from tests.sim.ports import Faults
from tests.sim.world import World
from tests.small_outlines import outline_small_values

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: sim/large}\nworkflow:\n"
MANY = 20_000
ROWS = {"row_count": MANY, "columns": ["id", "name"], "rows": [{"id": n, "name": f"row {n}"} for n in range(MANY)], "tail": "end"}
SIZE = len(json.dumps(ROWS, separators=(",", ":")))
READ = """
  - step: start
    tool: [{name: a, kind: http, url: "http://x"}]
    next:
      arcs:
        - step: use
          when: "{{ event.result.row_count == 20000 and event.result.rows | length > 5 and event.result.rows[6].id == 6 }}"
          args: {id: "{{ event.result.rows[5].id }}", some: "{{ steps.start.result.rows[10:12] }}", n: "{{ event.result.rows | length }}"}
  - step: use
    tool:
      - name: z
        kind: noop
        args:
          count: "{{ steps.start.result.row_count }}"
          id: "{{ steps.start.result.rows[5].id }}"
          last: "{{ steps.start.result.rows[-1].name }}"
          n: "{{ steps.start.result.rows | length }}"
          some: "{{ steps.start.result.rows[19000:19002] | map(attribute='id') | list }}"
          none: "{{ steps.start.result.rows[20000] | default('none') }}"
          tail: "{{ steps.start.result.get('tail') }}"
          args: "{{ args }}"
        spec:
          policy:
            rules:
              - {when: "{{ steps.start.result.rows[7].id == 7 }}", then: {do: continue, set_ctx: {seven: "{{ steps.start.result.rows[7].name }}"}}}
"""
USED = {
    "count": MANY,
    "id": 5,
    "last": f"row {MANY - 1}",
    "n": MANY,
    "some": [19_000, 19_001],
    "none": "none",
    "tail": "end",
    "args": {"id": 5, "some": [{"id": 10, "name": "row 10"}, {"id": 11, "name": "row 11"}], "n": MANY},
}


class Reads:
    """The bytes that were asked of the result store, by object."""

    def __init__(self, world: World) -> None:
        self.bytes: dict[str, int] = {}
        self.requests = 0
        self._get, world.results.get = world.results.get, self.get  # type: ignore[method-assign]

    def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        body = self._get(key, start, end)
        self.bytes[key] = self.bytes.get(key, 0) + len(body)
        self.requests += 1
        return body


def read_little(patch: pytest.MonkeyPatch) -> None:
    """Decisions and templates read at most 24,000 bytes."""
    patch.setattr(large_values, "MAX_DECISION_BYTES", 24_000)
    patch.setattr(service, "TEMPLATE_BYTES", 24_000)


@pytest.fixture(params=["within the limits", "over the limits"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    outline_small_values(monkeypatch, 16_000, 4_000)
    if request.param == "over the limits":
        read_little(monkeypatch)
    return str(request.param)


def ran(text: str, result: Any = ROWS, **world: Any) -> tuple[World, Any, Reads]:
    made = World(**world)
    reads = Reads(made)
    made.tool = lambda call: Outcome.ok(result if call.task == "a" else call.inputs.get("args"))
    state = made.run(made.start(limited(text)).execution_id)
    return made, state, reads


def limited(text: str) -> str:
    head = HEAD.replace("workflow:", "executor: {spec: {policy: {limits: {max_input_bytes: 24000}}}}\nworkflow:")
    return head + text


def inputs_of(world: World) -> Mapping[str, Any]:
    (last,) = [call for call in world.calls if call.task == "z"]
    found: Mapping[str, Any] = last.inputs["args"]
    return found


def test_guards_arguments_inputs_and_policies_read_parts(limits: str) -> None:
    world, state, reads = ran(READ)
    assert (state.status, state.failure) == ("completed", None)
    assert inputs_of(world) == USED
    assert state.ctx["seven"] == "row 7"
    assert SIZE > 500_000 and 0 < sum(reads.bytes.values()) < 80_000


def test_without_outlines_the_same_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    read_little(monkeypatch)
    world, state, _ = ran(READ)
    assert not [key for key in world.results.objects if "/outlines/" in key], "it is too small for one"
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "limit")


LOOKS = """
  - step: start
    tool: [{name: a, kind: http, url: "http://x"}]
    next: {arcs: [{step: use}]}
  - step: use
    tool: [{name: z, kind: noop, args: {v: "{{ LOOK }}"}}]
"""
GUARDS = """
  - step: start
    tool: [{name: a, kind: http, url: "http://x"}]
    next: {arcs: [{step: use, args: {v: "{{ LOOK }}"}}]}
  - step: use
    tool: [{name: z, kind: noop, args: {v: "{{ args.v }}"}}]
"""
WHERE = pytest.mark.parametrize("playbook", [LOOKS, GUARDS], ids=["worker", "control plane"])


@WHERE
@pytest.mark.parametrize("limits", ["over the limits"], indirect=True)
def test_values_that_must_be_loaded_whole_are_refused_with_a_remedy(playbook: str, limits: str) -> None:
    for look in ("steps.start.result.rows | map(attribute='id') | list | length", "steps.start.result.rows[:9000] | length"):
        _, state, reads = ran(playbook.replace("LOOK", look))
        assert state.failure is not None
        assert (state.status, state.failure["kind"]) == ("failed", "limit")
        assert "the limit is 24000); read less of it (an item, a slice, its length)" in state.failure["message"]
        assert sum(reads.bytes.values()) < 10_000, "the outline alone"


@WHERE
@pytest.mark.parametrize("limits", ["over the limits"], indirect=True)
def test_many_parts_of_one_value_add_up_to_the_limit_of_an_evaluation(playbook: str, limits: str) -> None:
    look = "{% for n in range(0, 20000, 100) %}{{ steps.start.result.rows[n].id }},{% endfor %}"
    _, state, reads = ran(playbook.replace("{{ LOOK }}", look))
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "limit")
    assert sum(reads.bytes.values()) < 60_000


@WHERE
@pytest.mark.parametrize("limits", ["within the limits"], indirect=True)
def test_a_value_within_the_limit_is_loaded_whole_when_many_parts_are_read(playbook: str, limits: str) -> None:
    look = "{% for n in range(0, 20000, 100) %}{{ steps.start.result.rows[n].id }},{% endfor %}"
    world, state, reads = ran(playbook.replace("{{ LOOK }}", look))
    assert state.status == "completed", state.failure
    assert inputs_of(world)["v"] == "".join(f"{n}," for n in range(0, MANY, 100))
    assert sum(reads.bytes.values()) < 1.6 * SIZE
    if playbook is GUARDS:
        assert reads.requests < 20, "rounds of the decision"


@pytest.mark.one_in(4)
@WHERE
@pytest.mark.parametrize("look", ["steps.start.result.rows[5].id", "steps.start.result.row_count"])
def test_an_overwritten_object_is_not_read_as_the_old_value(playbook: str, look: str, limits: str) -> None:
    made = World()
    made.tool = lambda call: Outcome.ok(ROWS if call.task == "a" else call.inputs.get("args"))
    execution_id = made.start(limited(playbook.replace("LOOK", look))).execution_id
    put = made.results.put

    def altered(key: str, body: bytes, content_type: str = "") -> Mapping[str, Any]:
        ref = put(key, body)
        if "/results/" in key:
            made.results.objects[key] = body.replace(b'"id":5,', b'"id":6,').replace(b"20000,", b"20001,")
            assert made.results.objects[key] != body
        return ref

    made.results.put = altered  # type: ignore[method-assign]
    state = made.run(execution_id)
    assert state.failure is not None
    assert (state.status, state.failure["kind"]) == ("failed", "template")
    assert "is not what was stored" in state.failure["message"]


FORGED: dict[str, Any] = {
    "of nothing": lambda ref, objects: {**ref, "outline": "sha256:" + "0" * 64},
    "no text": lambda ref, objects: {**ref, "outline": {"v": 1}},
    "a path": lambda ref, objects: {**ref, "outline": "sha256:../../1/secret"},
    "none": lambda ref, objects: {k: v for k, v in ref.items() if k != "outline"},
    "of another object": lambda ref, objects: {**ref, "outline": ref["outline"], "key": ref["key"] + "x"},
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("limits", ["within the limits"], indirect=True)
def test_a_forged_outline_in_an_answer_reads_no_other_object(forged: str, limits: str) -> None:
    """A called service that learnt a whole reference may alter it: the value is that of the object, or the task fails."""
    playbook = """
  - step: start
    tool: [{name: a, kind: http, url: "http://x"}]
    next: {arcs: [{step: mid, args: {ref: "{{ event.result }}"}}]}
  - step: mid
    tool: [{name: b, kind: http, url: "http://x"}]
    next: {arcs: [{step: use, when: "{{ event.result.rows[3].id == 3 }}"}]}
  - step: use
    tool: [{name: z, kind: noop, args: {v: "{{ steps.mid.result.rows[5].id }}"}}]
"""
    made = World()
    made.results.objects["1/secret.json"] = b'{"v": 1}'

    def tool(call: Any) -> Outcome:
        if call.task == "b":
            (key,) = [key for key in made.results.objects if "/results/" in key]
            (outline,) = [key for key in made.results.objects if "/outlines/" in key]
            ref = dict(made.results.put(key, made.results.objects[key]))
            ref["outline"] = "sha256:" + outline.rpartition("/")[2].removesuffix(".json")
            return Outcome.ok(FORGED[forged](ref, made.results.objects))
        return Outcome.ok(ROWS if call.task == "a" else call.inputs.get("args"))

    made.tool = tool
    state = made.run(made.start(limited(playbook)).execution_id)
    if forged == "of another object":
        assert state.failure is not None and (state.status, state.failure["kind"]) == ("failed", "template")
    else:
        assert (state.status, state.failure) == ("completed", None)
        assert inputs_of(made)["v"] == 5


def test_small_values_have_no_outline_and_cost_no_additional_request() -> None:
    small = {"row_count": 20_000, "rows": [{"id": n} for n in range(3_000)], "tail": "end"}
    world, state, reads = ran(LOOKS.replace("LOOK", "steps.start.result.rows[5].id"), small)
    assert state.status == "completed" and inputs_of(world)["v"] == 5
    (key,) = world.results.objects
    assert set(reads.bytes) == {key} and reads.requests == 1


LOOP = """
  - step: each
    loop: {in: "{{ range(400) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 20, MORE}}
    tool: [{name: a, kind: noop, args: {n: "{{ iter.i }}"}}]
    next:
      arcs:
        - step: use
          when: "{{ steps.each.result | length == 400 and steps.each.result[399].id == 399 }}"
          args: {some: "{{ event.result[48:52] | map(attribute='id') | list }}", first: "{{ (event.result | first).id }}"}
  - step: use
    tool:
      - name: z
        kind: noop
        args:
          n: "{{ each | length }}"
          one: "{{ each[123].id }}"
          last: "{{ each[-1].id }}"
          some: "{{ each[95:205:50] | map(attribute='id') | list }}"
          none: "{{ each[400] is defined }}"
          all: "{{ ALL }}"
          args: "{{ args }}"
"""
HOW = {
    "one worker": ("policy: {exec: local}", ""),
    "many workers, pages in the log": ("policy: {exec: distributed, chunk_size: 40}", ""),
    "many workers, pages beside it": ("policy: {exec: distributed, chunk_size: 40}", "max_payload_bytes: 1000"),
    "many workers, pages of pages": ("policy: {exec: distributed, chunk_size: 200}", ""),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("how", HOW)
def test_results_of_a_loop_are_read_by_page(how: str, limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tree, "RESULTS_PAGE", 50)
    monkeypatch.setattr(results, "BIG_PAGE", 2_000)
    outline_small_values(monkeypatch, 4_000, 1_000)
    more, policy = HOW[how]
    within = limits == "within the limits"
    text = limited(LOOP.replace("MORE", more).replace("ALL", "each | sum(attribute='id')" if within else "1"))
    text = text.replace("max_input_bytes: 24000", f"max_input_bytes: 24000, {policy}" if policy else "max_input_bytes: 24000")
    made = World()
    reads = Reads(made)

    def tool(call: Any) -> Outcome:
        n = call.inputs["args"].get("n")
        return Outcome.ok({"id": n, "text": "x" * 90} if call.task == "a" else call.inputs["args"])

    made.tool = tool
    state = made.run(made.start(text).execution_id)
    assert (state.status, state.failure) == ("completed", None)
    assert inputs_of(made) == {
        "n": 400,
        "one": 123,
        "last": 399,
        "some": [95, 145, 195],
        "none": False,
        "all": sum(range(400)) if within else 1,
        "args": {"some": [48, 49, 50, 51], "first": 0},
    }
    assert [key for key in made.results.objects if "manifest" in key]
    if how == "one worker" and not within:
        assert max(reads.bytes.values()) < 20_000 and len([key for key in reads.bytes if "page" in key]) < 8


@pytest.mark.sized
@pytest.mark.parametrize("seed", some(range(6), 3))
@pytest.mark.parametrize("limits", ["over the limits"], indirect=True)
def test_parts_are_the_same_under_faults(seed: int, limits: str) -> None:
    faults = Faults(seed, crash=0.02, throttle=0.05, lost_answer=0.05, duplicate=0.3, lose_record=0.1, delay=0.3)
    made = World(faults, routers=2)
    made.tool = lambda call: Outcome.ok(ROWS if call.task == "a" else call.inputs.get("args"))
    state = made.run(made.start(limited(READ)).execution_id)
    assert (state.status, state.failure) == ("completed", None)
    assert all(call.inputs["args"] == USED for call in made.calls if call.task == "z")
    assert sum(faults.seen.values()) > 0


@pytest.mark.parametrize("limits", ["over the limits"], indirect=True)
def test_a_replay_over_parts_makes_the_recorded_decisions(limits: str) -> None:
    world, state, _ = ran(READ)
    again = replay(world.controls[0], state.execution_id)
    assert (again.differences, again.missing, again.over) == ((), (), True)
