"""The model of docs/scaling.md: what an execution writes is counted over the AWS adapters, and the page has the model's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench.playbooks import chain, map_over
from bench.scaling import counted, simulate
from bench.scaling.model import Load, Stack, backlog_after, ceilings, first_bends, log_units, units
from bench.scaling.plot import chart
from bench.scaling.tables import GOAL, PAGE, marks, raised, stack, tables
from bench.scaling.write_units import WrittenUnits
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from noetl_core.adapters.aws.catalog_table.catalog import DynamoPlaybookCatalog
from noetl_core.adapters.aws.catalog_table.gates import DynamoGates
from noetl_core.adapters.aws.catalog_table.index import DynamoExecutionIndex
from noetl_core.adapters.aws.catalog_table.triggers import DynamoTriggers
from noetl_core.adapters.aws.events import DynamoEventStore, commit_from_image
from noetl_core.adapters.aws.queue import SqsCommandQueue, read_command
from noetl_core.adapters.aws.results import S3ResultStore
from noetl_core.adapters.clock import SystemClock
from noetl_core.control.admit import StartRequest, admit, register
from noetl_core.control.children import SubPlaybooks
from noetl_core.control.core import Control
from noetl_core.control.fence import boundary_of
from noetl_core.observe.cost import Meter
from noetl_core.tools.registry import ToolRegistry
from noetl_core.worker.service import Worker
from tests.aws_calls import through_botocore
from tests.contract.aws import bodies, environment, make_bucket, make_queue, make_table, resource
from tests.fast_moto import mock_aws
from tests.sim.world import World

DIGITS = 19
"""Digits of an execution's id."""


@contextmanager
def counting(tables: Mapping[str, WrittenUnits], wakes: list[Any]) -> Iterator[None]:
    """Counts what is written, and keeps the commits that wake the router."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def counted_call(client: Any, operation: str, asked: Any) -> Any:
        try:
            answer = call(client, operation, asked)
        except ClientError:
            if operation == "PutItem":
                tables[asked["TableName"]].refuse(asked["Item"]["pk"]["S"])
            raise
        if operation == "PutItem":
            tables[asked["TableName"]].put(asked["Item"])
            wakes.extend([asked["Item"]] if "wake" in asked["Item"] else [])
        elif operation == "DeleteItem":
            tables[asked["TableName"]].delete(asked["Key"]["pk"]["S"], asked["Key"]["sk"]["S"])
        return answer

    with pytest.MonkeyPatch.context() as patch, through_botocore():
        patch.setattr(BaseClient, "_make_api_call", counted_call)
        yield


def written_by(steps: int) -> Counter[tuple[str, str]]:
    """Write units of an execution of a registered chain, by table or index and kind of partition key."""
    with mock_aws(), environment():
        events, catalog = make_table("EventsTable"), make_table("CatalogTable")
        results, queue = S3ResultStore(make_bucket()), make_queue("CommandQueue")
        control = Control(
            DynamoEventStore(events, results),
            SqsCommandQueue({"default": queue}, make_queue("ControlQueue"), results),
            results,
            DynamoPlaybookCatalog(catalog),
            DynamoExecutionIndex(catalog),
            DynamoGates(catalog),
            SystemClock(),
            SubPlaybooks(),
            DynamoTriggers(catalog),
        )
        worker = Worker(
            control.store, results, control.gates, control.clock, playbooks=control.playbook, tools=ToolRegistry(), name="w"
        )
        playbook, _ = register(control, chain(steps))
        counters = {
            events: WrittenUnits("log", resource("EventsTable")),
            catalog: WrittenUnits("catalog", resource("CatalogTable")),
        }
        wakes: list[Any] = []
        with counting(counters, wakes):
            execution_id = admit(control, StartRequest(path=playbook.path)).execution_id
            for _ in range(steps):
                for body in bodies(queue):
                    worker.handle(read_command(body, results))
                commits = [commit_from_image(item, results) for item in wakes]
                wakes.clear()
                control.route(execution_id, [b for c in commits if c is not None and (b := boundary_of(c)) is not None])
        assert control.load(execution_id).status == "completed"
    found: Counter[tuple[str, str]] = Counter()
    for counter in counters.values():
        for (place, key), number in counter.units.items():
            found[(place, key.replace(execution_id, "ID").rpartition("#")[0] or key)] += number
    return found


@pytest.mark.parametrize("steps", [1, 3])
def test_writes_of_an_execution_per_partition_key_match_the_model(steps: int) -> None:
    name = f"bench/chain_{steps}"
    assert written_by(steps) == {
        ("log", "m"): counted.LOG_OF_EXECUTION + steps,
        ("log", "r#ID"): (counted.LOG_OF_STEP - 1) * steps,
        ("catalog", "due"): counted.DUE,
        ("catalog", "x"): counted.HEAD,
        ("heads", "heads#running"): counted.RUNNING,
        ("heads", "heads#completed"): counted.ENDED,
        ("heads_by_path", name): counted.BY_PATH,
    }


def metered(source: str) -> float:
    """Write units of an execution as `noetl cost` reckons them."""
    world = World()
    execution_id = world.start(source).execution_id
    assert world.run(execution_id, limit=200_000).status == "completed"
    meter = Meter(execution_id)
    for commits in world.store.streams.values():
        meter.observe(commits)
    return float(meter.as_dict()["total"]["units"]["dynamodb_write_units"])


@pytest.mark.parametrize("steps", [1, 10])
def test_the_model_and_the_cost_of_an_execution_agree(steps: int) -> None:
    assert metered(chain(steps)) == log_units(Load(steps=steps)) + counted.CATALOG
    assert units(Load(steps=steps)).dynamodb_write_units == log_units(Load(steps=steps)) + counted.CATALOG


def test_each_step_takes_the_same_time_of_lambda() -> None:
    one, two, ten = (units(Load(steps=n)).lambda_gb_seconds for n in (1, 2, 10))
    assert ten - one == pytest.approx(9 * (two - one))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", list(counted.ITERATIONS))
def test_the_capacity_of_an_iteration_matches_the_model(kind: str) -> None:
    few, many = 2_000, 6_000

    def source(items: int) -> str:
        return map_over(items, "noop", 80).replace(
            '"policy": {"exec": "local"}', f'"chunk_size": 100, "policy": {{"exec": "{kind}"}}'
        )

    taken = (metered(source(many)) - metered(source(few))) / (many - few)
    assert taken == pytest.approx(counted.ITERATIONS[kind], rel=0.1)


def test_ceilings_come_lowest_first_and_parameters_raise_them() -> None:
    small = stack()
    assert [c.per_s for c in ceilings(Load(), small)] == sorted(c.per_s for c in ceilings(Load(), small))
    assert ceilings(Load(), small)[0].what == "the API's own rate"
    assert first_bends(Load(by_version=True), raised(small), GOAL) == []


def test_a_longer_task_takes_more_workers_and_leaves_more_waiting() -> None:
    small = Stack(api_rate=100, index_partitions=8, router_parallelization=4, worker_concurrency=50)
    short, long = ({c.what: c.per_s for c in ceilings(Load(task_ms=ms), small)} for ms in (5.0, 500.0))
    assert short["workers of a pool"] > long["workers of a pool"]
    assert short["due items"] == long["due items"]
    assert backlog_after(60, 100, Load(task_ms=5.0), small, 60) == 0
    assert backlog_after(60, 1_000, Load(task_ms=500.0), small, 60) > 50_000


def test_the_page_has_the_tables_of_the_model() -> None:
    text = PAGE.read_text()
    for name, table in tables().items():
        first, last = marks(name)
        assert text.partition(first)[2].partition(last)[0] == table, f"{name}: make scaling"


def test_a_simulated_load_ends_whole_and_draws_its_charts(tmp_path: Path) -> None:
    row = simulate.run(simulate.Case("loop", "a small loop", 1, 1_501, lambda: simulate.looped(1_500)), tmp_path)
    assert row.startswith("| loop: a small loop | 1 | 1 | 1,501 |")
    charts = sorted(path.name for path in tmp_path.iterdir())
    assert charts == ["loop-backlog.svg", "loop-lag.svg", "loop-rates.svg"]
    for path in tmp_path.iterdir():
        assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")


def test_a_load_of_which_something_is_lost_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="of 2 did not end"):
        simulate.run(simulate.Case("loop", "a small loop", 2, 22, lambda: simulate.looped(10)), tmp_path)


def test_a_chart_has_a_line_for_each_series() -> None:
    drawn = ElementTree.fromstring(chart("a < b", "s", {"one": {0: 1, 5: 3}, "two": {0: 0.0, 7: 97.0}}))
    assert len(drawn.findall("{*}polyline")) == 2
    words = [text.text for text in drawn.findall("{*}text")]
    assert {"a < b", "one", "two", "100", "7 s"} <= set(words)


def test_a_row_takes_the_place_of_the_case_s_row_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first, last = marks("simulated")
    page.write_text(f"before\n{first}{last}after\n")
    for name, row in (("loop", "| loop: a |"), ("raised", "| raised: b |"), ("loop", "| loop: c |")):
        simulate.write_row(name, row, page)
    lines = page.read_text().splitlines()
    assert lines[4:6] == ["| raised: b |", "| loop: c |"]
    assert len(lines) == 8
