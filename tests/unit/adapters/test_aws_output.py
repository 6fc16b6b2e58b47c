"""The output of running tasks on a stack: visible after a moment, written seldom, and never in the way of the task."""

from __future__ import annotations

import pytest

from noetl_core.adapters.aws.catalog_table.output import EVERY_S, FIRST_S, KEPT_S, MOST_BYTES, DynamoRunningOutput
from noetl_core.engine.records import StreamId
from noetl_core.ports import RunningTask
from noetl_core.testing.contracts.clocks import START, FakeClock
from noetl_core.values.instants import to_rfc3339
from tests.contract.aws import make_table
from tests.unit.adapters.aws_services import aws, refuse, requests, watching

__all__ = ["aws"]

RUN = StreamId("17", "r1")


def task(text: str, number: int = 1) -> RunningTask:
    return {
        "step": "start",
        "task": f"work{number}",
        "task_run_id": f"t{number}",
        "attempt": 1,
        "started_at": to_rfc3339(START + number),
        "stdout": text,
        "written": {"stdout": len(text)},
    }


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def output(clock: FakeClock) -> DynamoRunningOutput:
    return DynamoRunningOutput(make_table("CatalogTable"), clock)


def test_another_process_sees_running_output_until_the_task_ends(output: DynamoRunningOutput, clock: FakeClock) -> None:
    reading = DynamoRunningOutput(output.table, clock)
    clock.sleep(FIRST_S + 1)
    assert output.show(RUN, [task("one")])
    assert output.show(StreamId("17", "r2"), [task("other", 2)])
    assert reading.of("17") == [task("one"), task("other", 2)]
    assert reading.of("1") == []
    assert output.show(RUN, [])
    assert reading.of("17") == [task("other", 2)]


def test_a_short_task_costs_nothing_and_a_long_one_a_request_now_and_then(output: DynamoRunningOutput, clock: FakeClock) -> None:
    with requests("dynamodb") as seen:
        assert not output.show(RUN, [task("a")])
        assert output.show(RUN, []), "there is nothing to hide"
        assert seen == []
        clock.sleep(FIRST_S)
        shown = 0
        for n in range(20):
            shown += output.show(RUN, [task("a" * n)])
            clock.sleep(0.5)
        assert (len(seen), shown) == (2, 2), "every five seconds"
        assert output.show(RUN, [])
        assert output.of("17") == []
    assert seen == ["UpdateItem"] * 3 + ["Query"]
    assert EVERY_S == 5


def test_the_output_of_a_killed_worker_expires_after_the_longest_invocation(
    output: DynamoRunningOutput, clock: FakeClock
) -> None:
    clock.sleep(FIRST_S + 1)
    output.show(RUN, [task("one")])
    clock.sleep(KEPT_S)
    assert output.of("17") == []


@pytest.mark.parametrize("letter", ["a", "\u00e9", "\U0001f4a5", "\x1b"])
def test_a_write_is_bounded_and_keeps_the_newest_tasks(output: DynamoRunningOutput, clock: FakeClock, letter: str) -> None:
    clock.sleep(FIRST_S + 1)
    assert output.show(RUN, [task(letter * 3_000, n) for n in range(20)])
    found = output.of("17")
    assert found[-1] == task(letter * 3_000, 19)
    assert len(found) < 20 and sum(len(one["stdout"].encode()) for one in found) <= max(MOST_BYTES, 3_000 * len(letter.encode()))


@pytest.mark.parametrize("code", ["AccessDeniedException", "ProvisionedThroughputExceededException"])
def test_a_failing_table_stops_no_task_and_is_retried_later(output: DynamoRunningOutput, clock: FakeClock, code: str) -> None:
    clock.sleep(FIRST_S + 1)
    with watching("dynamodb", "before-call.dynamodb.UpdateItem", refuse(code)):
        assert not output.show(RUN, [task("one")])
    clock.sleep(1)
    assert not output.show(RUN, [task("one")]), "it is not asked again at once"
    clock.sleep(EVERY_S)
    assert output.show(RUN, [task("one")])
