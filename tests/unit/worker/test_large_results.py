"""A large result goes from the process of its task to the store, and from there to the next task, as the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import Secret
from noetl_core.log.stored_values import Values, with_outline
from noetl_core.tools.masking.scrub import Scrubber
from noetl_core.values import large_json
from noetl_core.values.large_json import JsonText
from noetl_core.values.outlines import building, checksum_of, outline_of
from noetl_core.values.outlines.form import OUTLINED
from noetl_core.values.result_refs import Altered, reference_to
from noetl_core.views.executions import executions
from noetl_core.worker.values.inputs import load_inputs
from noetl_core.worker.values.offload import RunValues, encode
from tests.running import run_text
from tests.sim.ports import Faults, SimStore

ROWS = 12_000
CHAIN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: chain, path: tests/chain }
workflow:
  - step: make
    tool: { kind: python, args: { n: %d }, code: "result = [{'id': i, 'half': i / 2, 'text': 'é' * 40, 'tags': [i, None]} for i in range(n)]" }
    next: { arcs: [{ step: change }] }
  - step: change
    tool:
      - { name: one, kind: python, args: { rows: "{{ steps.make.result }}" }, code: "result = [{**row, 'new': True} for row in rows]" }
      - { name: two, kind: python, args: { deep: { rows: "{{ one }}" } }, code: "result = deep['rows'][1:]" }
    next: { arcs: [{ step: read, args: { rows: "{{ event.result }}" } }] }
  - step: read
    tool: { kind: python, code: "result = [len(rows), rows[-1]]" }
"""


class Counts:
    """The bytes of large texts that this process has decoded and encoded."""

    def __init__(self) -> None:
        self.decoded = self.encoded = 0

    def loads(self, decode: Any, body: Any, **options: Any) -> Any:
        self.decoded += len(body) if len(body) > 100_000 else 0
        return decode(body, **options)

    def dumps(self, encode: Any, *arguments: Any, **options: Any) -> Any:
        text = encode(*arguments, **options)
        self.encoded += len(text if isinstance(text, bytes) else text.encode()) if len(text) > 100_000 else 0
        return text


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found, loads, encoder, core = Counts(), json.loads, json.JSONEncoder.encode, large_json.fast_codec()
    monkeypatch.setattr(json, "loads", lambda body, **options: found.loads(loads, body, **options))
    monkeypatch.setattr(json.JSONEncoder, "encode", lambda self, value: found.dumps(encoder, self, value))
    counted = SimpleNamespace(
        from_json=lambda body: found.loads(core.from_json, body),
        to_json=lambda value, **options: found.dumps(core.to_json, value, **options),
    )
    monkeypatch.setattr(large_json, "fast_codec", lambda: counted)
    return found


def test_the_worker_decodes_each_large_result_once_and_no_argument(counts: Counts) -> None:
    """It decodes a result to check it, and encodes it to compare and to find its parts. Before, it decoded each result and each
    argument, and encoded each once more."""
    local, state = run_text(CHAIN % ROWS)
    try:
        out: Any = executions.summary(local.control, state.execution_id)
        assert out["error"] is None
        rows = [{"id": i, "half": i / 2, "text": "é" * 40, "tags": [i, None]} for i in range(ROWS)]
        new = [{**row, "new": True} for row in rows]
        assert out["steps"]["read"]["result"] == [ROWS - 1, new[-1]]
        sizes = [len(encode(value)) for value in (rows, new, new[1:])]
        assert min(sizes) > OUTLINED
        made = out["steps"]["make"]["result"]
        assert local.results.get(made["key"]) == encode(rows) and made["outline"]
        assert made["key"].endswith(f"-{sha256(encode(rows)).hexdigest()[:16]}.json")
    finally:
        local.close()
    ours = 4 * sizes[0] + sizes[1] + sizes[2]  # values that this test itself has encoded
    assert counts.decoded == sum(sizes)
    assert counts.encoded - ours <= 2 * sum(sizes)


WHOLE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: whole, path: tests/whole }
workflow:
  - step: make
    tool: { kind: python, code: "result = {'rows': ['é' * 40] * 30_000, 'n': 7}" }
    next: { arcs: [{ step: read }] }
  - step: read
    tool: { kind: python, args: "{{ steps.make.result }}", code: "result = [n, len(rows), len(args)]" }
"""


def test_a_large_mapping_may_be_all_arguments() -> None:
    local, state = run_text(WHOLE)
    try:
        out: Any = executions.summary(local.control, state.execution_id)
        assert out["error"] is None and out["steps"]["read"]["result"] == [7, 30_000, 2]
    finally:
        local.close()


def test_inputs_with_a_secret_are_values() -> None:
    """The tool's answer is masked of every text of a secret, also of one that a reference in it brought."""
    asked: list[bool] = []

    def whole(value: Any, _budget: object, *, texts: bool) -> Any:
        asked.append(texts)
        return value

    resolve: Any = SimpleNamespace(whole=whole)
    for args in ({"a": 1}, {"a": [Secret("x")]}):
        load_inputs("python", "t", {"args": args}, resolve, 10, texts=True)
    assert asked == [True, False]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All values are large."""
    for module, name in ((building, "OUTLINED"), (building, "LARGE"), (large_json, "LARGE")):
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(building, "BLOCK", 4)
    yield


def stored(results: Any, body: bytes, key: str = "1/results/x.json", outline: bytes | None = None) -> dict[str, Any]:
    results.put(key, body)
    return with_outline(results, reference_to(key, body), outline)


def values(results: Any) -> Values:
    return Values(SimStore(Faults(), lambda _: None), results, "1", limit=None)


@pytest.mark.usefixtures("small")
def test_a_value_stays_text_only_with_an_outline_that_proves_it() -> None:
    results = LazyTempResultStore()
    body = encode([1, {"a": "b"}, "c"])
    outline = outline_of([1, {"a": "b"}, "c"], body, checksum_of(body))
    proven = stored(results, body, outline=outline)
    text, nested = values(results).opened(proven, texts=True)
    assert type(text) is JsonText and text.body == body and text.value == [1, {"a": "b"}, "c"] and not nested
    assert values(results).opened(proven) == ([1, {"a": "b"}, "c"], False)
    assert values(results).opened({k: v for k, v in proven.items() if k != "outline"}, texts=True) == (text.value, False)

    broken = stored(results, b'[1,{"a":"b"},NaN]', "1/results/y.json")
    for forged in ({**broken, "outline": proven["outline"]}, {**broken, "outline": "sha256:00"}):
        with pytest.raises(ValueError, match="NaN is not a JSON number"):
            values(results).opened(forged, texts=True)
    results.put(proven["key"], b'[1,{"a":"b"},"d"]')
    with pytest.raises(Altered):
        values(results).opened(proven, texts=True)


@pytest.mark.usefixtures("small")
def test_references_in_a_large_value_are_replaced() -> None:
    results = LazyTempResultStore()
    inner = stored(results, b'"in it"', "1/results/in.json")
    value = [1, inner, 2]
    body = encode(value)
    outer = stored(results, body, outline=outline_of(value, body, checksum_of(body)))
    of = values(results)
    assert of.whole({"a": outer}, opened=lambda ref, budget: of.opened(ref, budget, texts=True)) == {"a": [1, "in it", 2]}


def test_the_text_of_a_result_is_stored_unless_the_result_was_changed() -> None:
    """A secret in a result is masked: the text from the process has it, and is dropped."""
    results = LazyTempResultStore()
    view = SimpleNamespace(execution_id="1", workload={}, args={}, steps={}, trigger={})
    executor = SimpleNamespace(reference_first=False, limits=SimpleNamespace(max_payload_bytes=10))
    resolve = SimpleNamespace(family=None, remember=lambda *_: None)
    run: Any = RunValues(view, {}, results, resolve, executor, tainted=False)  # type: ignore[arg-type]  # only what is used
    value = ["correct-horse-battery", "and more"]
    text = JsonText(b'[ "correct-horse-battery", "and more" ]', value)  # a spelling that shows where the bytes are from

    kept = Outcome("ok", result=value, text=text)
    assert results.get(run.store_if_large(kept.result, "results/a", kept.text)["key"]) == text.body

    scrubber = Scrubber()
    scrubber.learn("correct-horse-battery")
    masked = scrubber.outcome(kept)
    assert results.get(run.store_if_large(masked.result, "results/b", masked.text)["key"]) == b'["***","and more"]'
