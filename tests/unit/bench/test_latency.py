"""The model of times and costs on AWS: how it combines percentiles, counts requests and charges for them; the page has its tables."""

from __future__ import annotations

from statistics import NormalDist

import pytest
from bench.latency import inputs, tables
from bench.latency.inputs import ASSUMED, CITED, PUBLISHED, TARIFF, TIMES, Source, Time
from bench.latency.model import (
    Draws,
    Invocation,
    Record,
    Request,
    Setting,
    durable,
    ends,
    express,
    percentile,
    quantile,
    replay,
    standard,
    step_times,
    units,
    usd,
    whole_times,
)
from bench.latency.record import record
from bench.playbooks import chain
from bench.scaling import counted

ALONE = Source("none", "")
WIDE = Setting({"worker": inputs.WHOLE_PROCESSOR_MB, "router": inputs.WHOLE_PROCESSOR_MB, "ask": inputs.WHOLE_PROCESSOR_MB})
STEADY = {name: Time(name, {0.5: time.median}, ASSUMED, ALONE) for name, time in TIMES.items()}
"""Every time is its median."""


def end() -> Request:
    return Request("put", "end", write_units=1)


def worked(number: int, *causes: tuple[int, int]) -> Invocation:
    return Invocation(number, "worker", "queue", causes, [end()])


def test_a_distribution_reproduces_its_known_percentiles() -> None:
    known = TIMES["stream"].quantiles
    assert {share: quantile(known, share) for share in known} == pytest.approx(known)
    assert known[0.5] < quantile(known, 0.7) < known[0.9]
    assert quantile(known, 0.999) > known[0.99]
    drawn = Draws(TIMES)
    samples = [drawn("stream") for _ in range(20_000)]
    for share, ms in known.items():
        assert percentile(samples, share) == pytest.approx(ms, rel=0.05)


def test_two_percentiles_are_a_log_normal_distribution() -> None:
    score = NormalDist().inv_cdf(0.99)
    assert quantile({0.5: 10.0, 0.99: 40.0}, NormalDist().cdf(score / 2)) == pytest.approx(20.0)


def test_a_scaled_time_keeps_its_shape() -> None:
    moved = TIMES["put"].scaled(9.0)
    assert moved.median == 9.0
    assert moved.quantiles[0.99] == pytest.approx(30.0)


def test_draws_repeat_with_their_seed() -> None:
    assert [Draws(TIMES)("queue") for _ in range(3)] == [Draws(TIMES)("queue")] * 3
    assert Draws(TIMES, 1)("queue") != Draws(TIMES, 2)("queue")


def test_a_delivery_begins_with_the_request_that_causes_it() -> None:
    """The published times contain that request: it does not delay the delivery a second time."""
    routed = Invocation(1, "router", "stream", ((0, 0),), [Request("put", "decision"), Request("send")])
    one = Record([worked(0), routed, worked(2, (1, 1))])
    (ms,) = whole_times(one, STEADY, WIDE, 1)
    put, router, worker = (STEADY[name].median for name in ("put", "router", "worker"))
    assert ms == pytest.approx(STEADY["stream"].median - put + router + put + STEADY["queue"].median + worker + put)


def test_a_worker_waits_for_the_function_that_it_asks() -> None:
    asked = Invocation(1, "ask", "ask", (), [Request("get"), Request("put", "decision")])
    one = Record([Invocation(0, "worker", "queue", (), [end(), Request("invoke", inner=asked), end()]), asked])
    (ms,) = step_times(one, STEADY, WIDE, 1, skipped=0)
    parts = ("invoke", "router", "read", "put", "worker", "put")
    assert ms == pytest.approx(sum(STEADY[name].median for name in parts))
    at = replay(one, Draws(STEADY), WIDE)
    assert at.duration[1] == pytest.approx(sum(STEADY[name].median for name in ("router", "read", "put")))
    assert at.duration[0] > at.duration[1]


def test_a_small_function_takes_longer_for_the_same_work() -> None:
    one = Record([worked(0)])
    half = Setting({"worker": inputs.WHOLE_PROCESSOR_MB // 2})
    whole, stretched = (replay(one, Draws(STEADY), setting).duration[0] for setting in (WIDE, half))
    assert stretched - whole == pytest.approx(STEADY["worker"].median, rel=0.01)


def test_messages_wait_for_a_poller() -> None:
    one = Record([worked(number) for number in range(10)])
    unhindered, waiting = (max(replay(one, Draws(STEADY), Setting(WIDE.memory, pollers)).ended.values()) for pollers in (10, 5))
    assert waiting - unhindered == pytest.approx(STEADY["worker"].median + STEADY["put"].median)


def test_a_loop_waits_once_for_all_that_is_in_flight() -> None:
    waiting = Setting(WIDE.memory, task_ms=5.0)
    few, many = (replay(Record([worked(0)], iterations, 16), Draws(STEADY), waiting).duration[0] for iterations in (16, 32))
    assert many - few == pytest.approx(5.0 + 16 * STEADY["iteration"].median)


def test_an_execution_is_charged_for_each_request_delivery_and_invocation() -> None:
    routed = Invocation(
        1, "router", "stream", ((0, 0),), [Request("query", read_units=1.0), Request("put", "decision", 2), Request("send")]
    )
    taken = units(Record([worked(0), routed]), STEADY, WIDE)
    assert {name: number for name, number in taken.items() if name != "lambda_gb_seconds"} == {
        "dynamodb_write_units": 3,
        "dynamodb_read_units": 1,
        "sqs_requests": 1 + 2,
        "lambda_invocations": 2,
        "api_requests": 0,
    }
    assert usd({"lambda_invocations": 1e6}) == pytest.approx(0.2)


def test_other_services_cost_what_their_pricing_pages_list() -> None:
    """Examples of the pricing page of Step Functions: 100 million executions of ten seconds in the first tier."""
    assert standard(1_000, 0.0, 1769) == pytest.approx(0.025 + 1_000 * 0.2e-6)
    ten_seconds = express(400, 1, 0.0, 1769) - 400 * 0.2e-6
    assert ten_seconds == pytest.approx(1e-6 + 10 * 64 / 1024 * 0.06 / 3600)
    assert durable(1_000, 1, 0.0, 1769, TIMES) > 1_001 * 8e-6


def test_every_figure_of_a_service_has_a_source_or_a_range() -> None:
    for time in TIMES.values():
        assert time.standing in (PUBLISHED, CITED, ASSUMED)
        assert time.source.title
        if time.standing == ASSUMED:
            assert time.least < time.median < time.most, time.name
        else:
            assert time.source.url, time.name
    assert all(price.standing in (PUBLISHED, CITED) and price.source.url for price in TARIFF.values())


@pytest.mark.nightly
def test_a_chain_takes_the_requests_that_the_scaling_model_counts() -> None:
    taken = tables.per_step(tables.STREAM)
    assert taken["writes"] == taken["dynamodb_write_units"] == counted.LOG_OF_STEP
    assert taken["sqs_requests"] == counted.QUEUE_REQUESTS
    assert (taken["worker"], taken["router"], taken["ask"]) == (1, 1, 0)


@pytest.mark.nightly
def test_with_asks_a_step_takes_two_writes_one_question_and_no_queue() -> None:
    taken = tables.per_step(tables.ASKS)
    assert taken["writes"] == counted.LOG_OF_STEP - 1
    assert (taken["sqs_requests"], taken["ask"], taken["worker"]) == (0, 1, 0)
    assert 0 < taken["router"] < 0.5, "the stream's batches have several boundaries"


@pytest.mark.nightly
def test_a_record_has_each_run_once_and_causes_before_effects() -> None:
    for asks in (False, True):
        one = record(chain(3), asks=asks)
        assert len(ends(one)) == 3
        assert sum(invocation.runs for invocation in one.invocations) == 3
        assert [invocation.number for invocation in one.invocations] == list(range(len(one.invocations)))
        assert all(cause < invocation.number for invocation in one.invocations for cause, _ in invocation.causes)


def between_marks() -> str:
    first, last = tables.MARKS
    return tables.PAGE.read_text().partition(first)[2].partition(last)[0]


@pytest.mark.nightly
def test_the_page_has_the_counts_the_costs_and_the_inputs_of_the_model() -> None:
    text = between_marks()
    for table in (tables.requests(), tables.sizes(), tables.times(), tables.prices()):
        assert table in text, "make latency"


@pytest.mark.nightly
def test_the_page_has_every_table_of_the_model() -> None:
    assert between_marks() == tables.section(), "make latency"
