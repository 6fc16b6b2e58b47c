"""The finished chunks of a loop: what is kept of them says what a plain mapping would, in whatever order they ended."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl_core.engine import done_chunks, ids
from noetl_core.engine.done_chunks import BLOCK, DoneChunks, Origin
from noetl_core.engine.fold.control_stream import READABLE
from noetl_core.engine.records import Snapshot, control_events
from noetl_core.engine.snapshots import restore, snapshot
from noetl_core.engine.state import State
from noetl_core.events.shapes import ChunkDone
from tests.unit.engine.tables import EXECUTION, History, again, done, loop_done, parsed, redrive, sliced

LEAD, BEFORE = "r1", "r0"
RESULTS = st.none() | st.lists(st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 2) | st.text(max_size=3), max_size=2)


def as_stored(of: DoneChunks) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(asdict(of)))
    return found


def empty(chunks: int, epoch: int = 0) -> DoneChunks:
    return DoneChunks(EXECUTION, chunks, [Origin(LEAD, epoch)])


@st.composite
def chunk_ends(draw: st.DrawFn) -> tuple[int, list[tuple[int, ChunkDone]]]:
    """A number of chunks, and some of them with how they ended, in any order, some twice."""
    count = draw(st.sampled_from([1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 1_000]))
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    unlike = {draw(st.integers(0, count - 1)): draw(st.integers(0, 4)) for _ in range(draw(st.integers(0, 4)))}
    result = draw(RESULTS)
    order = chance.sample(range(count), draw(st.integers(0, count)) if chance.random() < 0.5 else count)
    found = []
    for index in order:
        run = ids.chunk_run_id(EXECUTION, LEAD, index, 0)
        end: ChunkDone = {"run": run, "seq": 1, "succeeded": 1, "failed": 0, "result": result}
        match unlike.get(index):
            case 0:
                end["succeeded"], end["failed"] = 0, 1
            case 1:
                end["run"], end["seq"] = f"other{index}", 7
            case 2:
                end["writes"], end["result"] = True, {"key": f"k{index}", "size": index}
            case 3:
                end["innermost"] = {"total": 9, "succeeded": 4, "failed": 2}
            case 4:
                end["result"] = draw(RESULTS)
        found.append((index, end))
    for _ in range(3 if found else 0):
        found.insert(chance.randrange(len(found)), chance.choice(found))
    return count, found


def says_the_same(kept: DoneChunks, model: Mapping[int, ChunkDone]) -> None:
    """Assert that the stored form equals a mapping by index."""
    assert len(kept) == len(model)
    rows = list(kept.in_order())
    assert [index for index, _ in rows] == sorted(model)
    for index, row in rows:
        end = model[index]
        compact = (kept.run_of(index, row), row.seq, row.succeeded, row.failed, row.writes, row.innermost)
        plain = (end["run"], end["seq"], end["succeeded"], end["failed"], end.get("writes", False), end.get("innermost"))
        assert compact == plain
        assert json.dumps(row.result) == json.dumps(end.get("result")), "1 is neither true nor 1.0"
    for index in {0, kept.chunks - 1, kept.chunks // 2, *list(model)[:3]}:
        assert (index in kept) == (index in model)
        assert kept.run(index) == (model[index]["run"] if index in model else None)
        missing = next((n for n in range(index, kept.chunks) if n not in model), None)
        assert kept.next_missing(index) == missing
    assert kept.failed == sum(end["failed"] for end in model.values())
    assert kept.ended == sum(end["succeeded"] + end["failed"] for end in model.values())
    own = [{"total": e["succeeded"] + e["failed"], "succeeded": e["succeeded"], "failed": e["failed"]} for e in model.values()]
    inner: Sequence[Any] = [end.get("innermost") or plain for end, plain in zip(model.values(), own, strict=True)]
    assert kept.innermost == {key: sum(counts[key] for counts in inner) for key in ("total", "succeeded", "failed")}


@given(chunk_ends())
@settings(deadline=None)
def test_done_chunks_match_a_mapping_in_any_order_of_ends(found: tuple[int, list[tuple[int, ChunkDone]]]) -> None:
    count, ends = found
    kept, other, model = empty(count), empty(count), dict(reversed(ends))
    for index, end in ends:
        kept.add(index, end)
    for index in sorted(model):
        other.add(index, model[index])
    says_the_same(kept, model)
    assert as_stored(kept) == as_stored(other), "what is kept does not say in which order they ended"


@pytest.mark.nightly
def test_many_ordinary_chunks_take_less_than_a_byte_each() -> None:
    count = 100 * BLOCK
    kept = empty(count)
    for index in range(count - 1):
        run = ids.chunk_run_id(EXECUTION, LEAD, index, 0)
        kept.add(index, {"run": run, "seq": 1, "succeeded": 1, "failed": int(index == 617)})
    assert (len(kept), kept.failed, kept.next_missing(0)) == (count - 1, 1, count - 1)
    assert len(json.dumps(as_stored(kept))) < count, "less than a byte of each"


@pytest.mark.parametrize("epochs", [1, 3])
def test_chunks_that_a_redrive_takes_over_are_stored_compactly(epochs: int) -> None:
    """Most chunks ran under one lead, a few under the lead of an earlier redrive."""
    count = 4 * BLOCK
    model: dict[int, ChunkDone] = {
        index: {
            "run": ids.chunk_run_id(EXECUTION, BEFORE, index, 0) if index % 200 else f"other{index}",
            "seq": 1,
            "succeeded": 1,
            "failed": 0,
            "result": [index],
        }
        for index in range(count)
        if index != 617
    }
    kept = empty(count, epochs)
    kept.take_over({str(index): end for index, end in model.items()}, BEFORE)
    says_the_same(kept, model)
    assert kept.next_missing(0) == 617 and kept.next_missing(618) is None
    assert sum(map(len, kept.texts.values())) < 12 * count, "no run is kept that follows from its index"
    mine: ChunkDone = {"run": ids.chunk_run_id(EXECUTION, LEAD, 617, epochs), "seq": 1, "succeeded": 1, "failed": 0}
    kept.add(617, mine)
    assert kept.run(617) == mine["run"] and not kept.rows


# --- in an execution ------------------------------------------------------------------------------------------------------

FLOW = """
- step: start
  tool: { kind: noop }
  next: { arcs: [{ step: each }] }
- step: each
  loop: { in: "{{ range(N) | list }}", iterator: i, spec: { mode: parallel, policy: { exec: distributed, failure: { mode: best_effort } } } }
  tool: { kind: noop }
"""


def plainly(history: History) -> dict[int, ChunkDone]:
    """The finished chunks of the newest run of `each`, from its log alone, each as it is."""
    model: dict[int, ChunkDone] = {}
    chunks: dict[str, int] = {}
    for event in (event for commit in history.commits for event in control_events(commit)):
        match event.name:
            case "ExecutionRedriven":
                (prior,) = (t["prior"] for t in event.data["tokens"] if "prior" in t)
                model = {int(index): end for index, end in prior["loop"]["done"].items()}
            case "LoopChunkScheduled":
                chunks[event.data["run"]] = event.data["chunk"]
            case "BoundaryRouted" if event.data["run"] in chunks:
                d = event.data
                end: ChunkDone = {
                    "run": d["run"],
                    "seq": d["seq"],
                    "succeeded": d.get("succeeded", 0),
                    "failed": d.get("failed", 0),
                }
                end["result"], end["writes"] = d.get("result"), bool(d.get("writes"))
                model[chunks[d["run"]]] = end
    return model


def loop_of(state: State) -> Any:
    return next((run.loop for run in state.runs.values() if run.loop is not None), None)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(8))
def test_a_loop_is_decided_as_its_log_says_in_any_order_of_ends_and_after_redrives(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks end in any order within their window, fail, and are delivered again; what failed is redriven, then one of all."""
    monkeypatch.setattr(done_chunks, "BLOCK", 8)
    chance = random.Random(seed)
    count = chance.choice([3, 8, 41])
    history = History(parsed(FLOW.replace("N", str(count))))
    for news in (None, done("start"), sliced("each", count, 1, chance.choice([1, 4, 30]))):
        history.decide(news)
    results = [chance.choice([None, True, 1, 1.0, "x" * chance.choice([1, 600])]) for _ in range(count)]
    broken = {index for index in range(count) if chance.random() < 0.1} | {count - 1}
    for begin in ("failed", None, "each@0", "each@1"):
        if begin != "failed":
            history.decide(redrive(begin))
            broken = set()
        began = []
        while (loop := loop_of(state := history.state)) is not None:
            says_the_same(loop.done, plainly(history))
            assert asdict(restored(state)) == asdict(state) == asdict(of_version_9(history, state))
            run, index = chance.choice(list(loop.open.items()))
            began.append(index)
            decision = history.decide(loop_done(history.labels[run], 1, int(index in broken), [results[index]]))
            if chance.random() < 0.2 and not decision.state.finished:
                assert not history.decide(again(history.labels[run])).events, "delivered once more it changes nothing"
        assert state.steps["each"].loop == {"total": count, "succeeded": count - len(broken), "failed": len(broken)}
        expected = {"failed": count, None: None, "each@0": 1, "each@1": 1}[begin]
        assert len(began) == len(set(began)) and expected in (None, len(began))
        at: Any = state.steps["each"].at
        if decision.objects:
            ((_, body),) = decision.objects
            ended = {end["run"]: index for index, end in plainly(history).items()}
            parts = json.loads(body)
            assert [part["result"] if "result" in part else [results[ended[part["run"]]]] for part in parts] == [
                [r] for r in results
            ]
        else:
            assert at == {"value": results}


def restored(state: State) -> State:
    """The state as it is loaded from its snapshot."""
    return _loaded(snapshot(state))


def of_version_9(history: History, state: State) -> State:
    """The state as it is loaded from a snapshot that an older version made: each chunk as it is."""
    kept = snapshot(state)
    old = deepcopy(dict(kept.state))
    (run,) = (run for run in old["runs"].values() if run["loop"] is not None)
    ends = plainly(history)
    run["loop"]["done"] = {str(index): {"innermost": None, "result": None, "writes": False, **end} for index, end in ends.items()}
    if run["prior"] is not None:
        run["prior"]["loop"]["done"] = history_of_prior(history)
    return _loaded(Snapshot(kept.execution_id, kept.seq, 9, old))


def history_of_prior(history: History) -> Mapping[str, ChunkDone]:
    """Return the chunks that the newest redrive kept."""
    events = [event for commit in history.commits for event in control_events(commit) if event.name == "ExecutionRedriven"]
    return next(token["prior"]["loop"]["done"] for token in events[-1].data["tokens"] if "prior" in token)


def _loaded(kept: Snapshot) -> State:
    assert kept.reducer in READABLE
    return restore(Snapshot(kept.execution_id, kept.seq, kept.reducer, json.loads(json.dumps(kept.state))))
