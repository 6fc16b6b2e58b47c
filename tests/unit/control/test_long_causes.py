"""Causes and differences in long executions: a bounded number of commits of the log is read, and the answer is that of a reader
of all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.control.cached_states import SnapshotRule
from noetl_core.control.catalog.registration import register
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.explain import diff, why
from noetl_core.views.reading.log_parts import LIMITS, ReadLimits
from tests.properties import some
from tests.unit.control.decode_counts import CountedReads, Decoded
from tests.unit.control.long_playbooks import FAILS, HEAD, LAPS, laps, loop
from tests.unit.control.workflows import source

BOUND = 500
"""Commits of a control stream that are read, instead of `READ`."""
BESIDE = 200
"""Commits behind the snapshots from which the newest state and the one just after an event are folded."""
CHUNKS = 90


def started(local: LocalWiring, playbook: str, **request: Any) -> str:
    execution_id = local.start(StartRequest(playbook=playbook, **request)).execution_id
    assert local.run(execution_id)
    return execution_id


@pytest.fixture(scope="module")
def long() -> Iterator[tuple[LocalWiring, str, str]]:
    local = LocalWiring()
    yield local, started(local, source(laps())), started(local, source(laps()), payload={"other": True})
    local.close()


@pytest.fixture
def get(long: tuple[LocalWiring, str, str], monkeypatch: pytest.MonkeyPatch) -> Decoded:
    return Decoded(*long[:2], monkeypatch)


@pytest.mark.one_in(3)
@pytest.mark.sized
@pytest.mark.parametrize(("step", "part"), some(product([None, "start", "a", "b"], [1, 3 / 4]), 3))
def test_an_answer_reads_no_more_than_its_bound(
    get: Decoded, long: tuple[LocalWiring, str, str], step: str | None, part: float
) -> None:
    local, execution_id, _ = long
    last = local.control.load(execution_id).seq
    at = f"{execution_id}.control.{int(last * part)}.0"
    few = ReadLimits(whole=BOUND, read=BOUND, evaluated=BOUND * 2 // 5)
    found: dict[str, Any] = get.answer(lambda: why.why(local.control, execution_id, step, at, few))
    assert get.count <= BOUND + BESIDE < last * part
    assert get.bytes < 40_000
    told = found.pop("partial", None)
    assert told == {"commits": int(last * part) + 1, "read": told["read"], "unevaluated": 0}
    assert why.why(local.control, execution_id, step, at, ReadLimits(whole=last + 1, read=last + 1)) == found


@pytest.mark.parametrize("step", [None, "a"])
def test_a_short_log_is_read_once_beside_its_state(step: str | None) -> None:
    local = LocalWiring()
    execution_id = started(local, source(laps()).replace(f"< {LAPS}", "< 20"))
    commits = local.control.load(execution_id).seq + 1
    store = local.control.store = CountedReads(local.store)
    found = why.why(local.control, execution_id, step)
    assert found["facts"] and "partial" not in found
    assert store.commits == 2 * commits
    local.close()


def test_two_long_executions_are_compared_in_parts(get: Decoded, long: tuple[LocalWiring, str, str]) -> None:
    _, _, other = long
    found = get("diff", other=other)
    assert get.count <= 2 * (LIMITS.read + BESIDE)
    assert get.bytes < 80_000
    assert [(each.get("step"), each["field"]) for each in found["differences"]] == [(None, "inputs.other")]
    told = found["partial"]
    assert told["visits"] == 2 * LAPS + 1
    assert 100 < told["compared"] == len(found["durations"]) < 500
    steps = {each["step"]: each for each in told["steps"]}
    assert {name: (each["a"]["visits"], each["a"]["failed"]) for name, each in steps.items()} == {
        "start": (1, 0),
        "a": (LAPS, 0),
        "b": (LAPS, 1),
    }
    compared = [each["visit"] for each in found["durations"] if each["step"] == "b"]
    assert {1, FAILS + 1, LAPS} <= {*compared}
    assert len(compared) == steps["b"]["compared"]


@pytest.mark.nightly
def test_a_diff_reports_additional_visits_and_failures(get: Decoded, long: tuple[LocalWiring, str, str]) -> None:
    """The differences lie in the middle: the state leads to the failure, and counts of runs to the visits behind it."""
    local, _, _ = long
    text = source(laps()).replace(f"args.n == {FAILS}", f"args.n in [{FAILS}, {FAILS + 40}]")
    text = text.replace(f'"n": {FAILS + 1}', '"n": "{{ args.n + 1 }}"')
    other = started(local, text.replace("{{ event.result < ", "{{ event.result < 10 + "))
    found = get("diff", other=other)
    assert get.count <= 2 * (LIMITS.read + BESIDE)
    told = {(each.get("step"), each.get("visit"), each["field"]): (each["a"], each["b"]) for each in found["differences"]}
    assert told["b", None, "failed runs"] == ("1", "2")
    assert told["b", FAILS + 41, "status"] == ("ok", "error")
    assert told["b", None, "runs"] == (str(LAPS), str(LAPS + 10))


# --- places that are far apart ------------------------------------------------------------------------------------------


def far(name: str, *arcs: dict[str, Any], items: str = "", **more: Any) -> dict[str, Any]:
    """A loop of many chunks: what is before it is far from what is behind it."""
    (step,) = loop(CHUNKS, "distributed")
    step = {**step, "step": name, "next": {"spec": {"mode": "inclusive"}, "arcs": [*arcs]}, **more}
    step["loop"] = {**step["loop"], "in": items or step["loop"]["in"], "spec": {**step["loop"]["spec"], "chunk_size": 1}}
    return step


def noop(name: str, *arcs: dict[str, Any], **more: Any) -> dict[str, Any]:
    router = {"next": {"spec": {"mode": "inclusive"}, "arcs": [*arcs]}} if arcs else {}
    return {"step": name, "tool": {"kind": "noop", "result": name}, **router, **more}


def arc(step: str, when: str = "") -> dict[str, Any]:
    return {"step": step, **({"when": f"{{{{ {when} }}}}"} if when else {})}


def admit(when: str, on_deny: str) -> dict[str, Any]:
    rule = {"allow": f"{{{{ {when} }}}}"}
    return {"spec": {"policy": {"admit": {"rules": [rule]}, "on_deny": on_deny}}}


JOIN = {"spec": {"join": "all"}}
ERROR = [{"kind": "noop", "result": "{{ 1 / (0 if iter.n == 85 else 1) }}"}]
CASES: dict[str, list[dict[str, Any]]] = {
    "one loop behind another": [
        noop("start", arc("one"), arc("never", "1 > 2")),
        far("one", arc("two", "steps.start.result == 'start'")),
        far("two", arc("end")),
        noop("end", arc("beyond", "event.result == 'no'")),
        noop("never", arc("after")),
        noop("after"),
        noop("beyond"),
    ],
    "a token waits at a join for a loop": [
        noop("start", arc("slow"), arc("met"), arc("lacks")),
        far("slow", arc("met"), arc("lacks", "1 > 2"), arc("last")),
        noop("met", arc("last"), **JOIN),
        noop("lacks", **JOIN),
        far("last"),
    ],
    "a chunk fails": [
        noop("start", arc("bad")),
        {**far("bad", arc("well"), arc("ill", "event.name == 'step.failed' and 1 > 2")), "tool": ERROR},
        noop("well"),
        noop("ill"),
    ],
    "a failed loop is handled, and an arc fails later": [
        noop("start", arc("bad")),
        {**far("bad", arc("good", "event.name == 'step.failed'")), "tool": ERROR},
        far("good", arc("end", "event.nothing.at_all > 1")),
        noop("end"),
    ],
}


@pytest.fixture
def dense() -> Iterator[LocalWiring]:
    """A store whose snapshots are near to each other."""
    local = LocalWiring()
    local.control.states.rule = SnapshotRule(every=10)
    yield local
    local.close()


SMALL = ReadLimits(whole=12, tail=6, block=4, near=10)
"""The parts that are read are small."""


def explained(local: LocalWiring, execution_id: str) -> None:
    """Assert that parts tell what the whole tells, of every step, now and at moments of the past."""
    state = local.control.load(execution_id)
    assert state.seq > CHUNKS - 10
    steps = [step.name for step in local.control.playbook(state.digest).steps]
    moments = [None, *(f"{execution_id}.control.{state.seq * part // 5}.0" for part in range(1, 5))]
    asked = [(step, at) for step in (None, *steps) for at in moments]
    whole = [why.why(local.control, execution_id, *each) for each in asked]
    assert not any("partial" in each for each in whole)
    partial = 0
    for each, expected in zip(asked, whole, strict=True):
        found: dict[str, Any] = {**why.why(local.control, execution_id, *each, limits=SMALL)}
        if told := found.pop("partial", None):  # searching may also read all of a log
            partial += 1
            assert told["unevaluated"] == 0 and told["read"] < told["commits"]
        assert found == expected, each
    assert partial


@pytest.mark.one_in(2)
@pytest.mark.sized
@pytest.mark.parametrize("name", some(CASES, 2))
def test_causes_are_found_across_unread_parts_of_the_log(name: str, dense: LocalWiring) -> None:
    explained(dense, started(dense, source(CASES[name])))


@pytest.mark.nightly
def test_the_way_back_is_found_across_a_redrive(dense: LocalWiring) -> None:
    execution_id = started(dense, source(CASES["one loop behind another"]))
    redrive(dense.control, execution_id, Redrive(From.parse("two")))
    assert dense.run(execution_id)
    explained(dense, execution_id)


@pytest.mark.nightly
def test_compensations_are_found_that_lie_before_many_others(dense: LocalWiring) -> None:
    undo = {"compensate": {"kind": "noop"}}
    steps = [noop(f"s{n}", arc(f"s{n + 1}"), **undo) for n in range(9)]
    explained(
        dense,
        started(
            dense, source([far("one", arc("s0")), *steps, {"step": "s9", "tool": {"kind": "noop", "result": "{{ 1 / 0 }}"}}])
        ),
    )


def test_a_child_that_failed_behind_a_loop_has_the_cause(dense: LocalWiring) -> None:
    child = 'kind: Playbook\nmetadata: {name: c, path: t/c}\nworkflow: [{step: bad, tool: {kind: noop, result: "{{ 1 / 0 }}"}}]\n'
    register(dense.control, "apiVersion: noetl.io/v2\n" + child)
    call = {"step": "call", "tool": {"kind": "playbook", "path": "t/c"}}
    execution_id = started(dense, source([far("one", arc("call")), call]))
    explained(dense, execution_id)
    causes = why.why(dense.control, execution_id)["causes"]
    assert [each.get("playbook") for each in causes] == ["t/c", None]


def test_an_explanation_states_which_parts_of_the_log_are_unread(dense: LocalWiring) -> None:
    """If the read limit is too small for the way back, the explanation states the known decisions and the unread parts."""
    execution_id = started(dense, source(CASES["one loop behind another"]))
    few = replace(SMALL, evaluated=0, read=30)  # some 65, depending on the grouping of iterations
    found = why.why(dense.control, execution_id, "end", limits=few)
    assert found["partial"]["read"] <= 30
    texts = [fact["text"] for fact in found["facts"]]
    assert any("not read" in text for text in texts) or found["partial"]["unevaluated"]
    assert any(text.startswith("end ran and ended well") for text in texts)


@pytest.mark.nightly
def test_a_partial_diff_of_long_executions_equals_the_whole_diff(dense: LocalWiring) -> None:
    text = source(CASES["one loop behind another"])
    ids = [
        started(dense, each) for each in (text, text, text.replace("'no'", "'end'"), text.replace(f"range({CHUNKS})", "range(9)"))
    ]
    whole = [diff.diff(dense.control, ids[0], other) for other in ids]
    for other, expected in zip(ids, whole, strict=True):
        found = diff.diff(dense.control, ids[0], other, replace(SMALL, ends=6))
        del found["partial"]
        assert found == expected
    assert HEAD in text


@pytest.mark.nightly
def test_a_log_without_snapshots_is_read_no_further(dense: LocalWiring) -> None:
    """Older versions replaced snapshots: causes far from both ends of the log are not found, and the answer is partial."""
    execution_id = started(dense, source(CASES["one loop behind another"]))
    dense.database.write("DELETE FROM snapshots WHERE execution_id=?", (execution_id,))
    few = replace(SMALL, scanned=20, evaluated=0, read=100)
    for step in (None, "start", "one", "two", "end", "beyond", "never", "after"):
        found = why.why(dense.control, execution_id, step, limits=few)
        assert found["partial"]["read"] <= 100, step
        assert found["facts"], step


def test_an_explanation_counts_the_steps_it_did_not_examine(dense: LocalWiring) -> None:
    ends = [noop(name, arc("never", "1 > 2")) for name in ("a", "b", "c")]
    workflow = [noop("start", *map(arc, ("a", "b", "c", "far"))), *ends, far("far", arc("last")), noop("last"), noop("never")]
    execution_id = started(dense, source(workflow))
    whole = [fact["text"] for fact in why.why(dense.control, execution_id)["facts"]]
    assert len(whole) == 3
    assert [fact["text"] for fact in why.why(dense.control, execution_id, limits=SMALL)["facts"]] == whole
    few = [fact["text"] for fact in why.why(dense.control, execution_id, limits=replace(SMALL, steps=1))["facts"]]
    assert few[-1] == "whether 4 more steps continued was decided in a part of the log that is not read"
