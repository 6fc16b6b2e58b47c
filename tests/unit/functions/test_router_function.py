"""The router function: one record or execution that cannot be routed never holds up the others of its batch."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from moto import mock_aws

from noetl_core import wiring
from noetl_core.adapters.aws.clients import client
from noetl_core.control.admit import StartRequest, admit
from noetl_core.engine.records import Event, StreamId
from tests.contract.aws import environment, make_bucket, make_queue, make_table
from tests.contract.event_store import commit

APP = Path(__file__).parents[3] / "functions" / "router" / "app.py"
HELLO = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: hello}
workflow:
- step: hello
  tool: {kind: noop}
"""


@pytest.fixture
def router() -> Iterator[ModuleType]:
    with mock_aws(), environment():
        queue = make_queue("CommandQueue")
        names = {
            "EVENTS_TABLE": make_table("EventsTable"),
            "CATALOG_TABLE": make_table("CatalogTable"),
            "RESULTS_BUCKET": make_bucket(),
            "COMMAND_QUEUES": f'{{"default": "{queue}"}}',
            "CONTROL_QUEUE_URL": make_queue("ControlQueue"),
            "POWERTOOLS_TRACE_DISABLED": "1",
            "POWERTOOLS_SERVICE_NAME": "noetl",
            "POWERTOOLS_METRICS_NAMESPACE": "NoETL",
        }
        with environment(**names):
            wiring.control.cache_clear()
            wiring.results.cache_clear()
            spec = importlib.util.spec_from_file_location("router_app", APP)
            assert spec is not None
            assert spec.loader is not None
            app = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(app)
            yield app
        wiring.control.cache_clear()
        wiring.results.cache_clear()


def started() -> tuple[str, str]:
    """An execution, and the run of its only step, which its worker has just ended."""
    control = wiring.control()
    execution_id = admit(control, StartRequest(playbook=HELLO)).execution_id
    (run,) = control.load(execution_id).runs
    stream = StreamId(execution_id, run)
    control.store.append(commit(stream, 0, events=(Event("StepStarted", 1, {"step": "hello", "as_of": 0, "worker": "w"}),)))
    control.store.append(commit(stream, 1, events=(Event("StepDone", 2, {"result": None, "set_ctx": {}}),), wake=True))
    return execution_id, run


def records() -> list[dict[str, Any]]:
    """The waking commits as the stream delivers them."""
    found = client("dynamodb").scan(TableName=wiring.os.environ["EVENTS_TABLE"])["Items"]
    images = [
        {k: {"B": base64.b64encode(v["B"]).decode()} if "B" in v else v for k, v in item.items()}
        for item in found
        if "wake" in item
    ]
    return [{"eventSource": "aws:dynamodb", "eventName": "INSERT", "dynamodb": {"NewImage": image}} for image in images]


def test_a_record_that_does_not_read_leaves_the_others_of_its_batch_alone(router: ModuleType) -> None:
    (bad, _), (good, _) = started(), started()
    batch = sorted(records(), key=lambda r: r["dynamodb"]["NewImage"]["execution_id"]["S"] != bad)
    batch[0]["dynamodb"]["NewImage"]["v"] = {"N": "99"}
    assert router._stream(batch) == {"batchItemFailures": []}
    control = wiring.control()
    assert control.load(good).status == "completed"
    assert control.load(bad).status == "running"
    assert bad in [due.execution_id for due in control.index.due(control.clock.now())]


def test_an_execution_whose_routing_fails_is_woken_again_and_the_others_go_on(
    router: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bad, _), (good, _) = started(), started()
    control = wiring.control()
    route = control.route

    def fail(execution_id: str, *args: Any, **named: Any) -> Any:
        if execution_id == bad:
            raise RuntimeError("a decision that raises")
        return route(execution_id, *args, **named)

    monkeypatch.setattr(control, "route", fail)
    router._stream(records())
    assert control.load(good).status == "completed"
    assert bad in [due.execution_id for due in control.index.due(control.clock.now())]
    url = wiring.os.environ["CONTROL_QUEUE_URL"]
    asked = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert asked["ApproximateNumberOfMessagesDelayed"] == "1"
