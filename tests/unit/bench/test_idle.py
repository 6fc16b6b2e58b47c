"""The cost of an idle stack: the docs' table follows from the template, and a sweep that finds nothing makes the requests of its
price."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from bench import idle

from tests.aws_calls import observe_calls
from tests.unit.infra import test_sample_events as sample

cloud = sample.cloud


def test_the_docs_have_the_generated_table_of_idle_costs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "operating.md").read_text()
    first, last = idle.MARKS
    assert text.partition(first)[2].partition(last)[0] == idle.table(), "make idle"


def test_an_idle_sweep_makes_exactly_the_requests_it_is_priced_for(
    cloud: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: Counter[str] = Counter()
    observe_calls(monkeypatch, lambda _service, operation, _arguments: asked.update([operation]))
    sample.call("sweeper", "schedule")
    assert asked == {"Query": idle.SWEEP["reads"], "ReceiveMessage": idle.SWEEP["receives"]}
    (sent,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert len(sent["_aws"]["CloudWatchMetrics"][0]["Metrics"]) == idle.SWEEP["metrics"]
