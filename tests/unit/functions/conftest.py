"""The functions as Lambda loads them, over mocked AWS."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from noetl_core.runtime import control_wiring, worker_wiring
from tests.contract.aws import environment, make_bucket, make_queue, make_table
from tests.fast_moto import mock_aws

HELLO = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: hello}
workflow:
- step: hello
  tool: {kind: noop}
"""


def lines(log: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    """Return the lines of a function's log with that message."""
    return [vars(record) for record in log.records if record.getMessage() == message]


FUNCTIONS = Path(__file__).parents[3] / "functions"
Function = Callable[[str], ModuleType]


@dataclass
class Context:
    """An invocation's context; `left_ms` is what is left of its time."""

    left_ms: int = 60_000
    function_name: str = "f"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:f"
    aws_request_id: str = "req-1"

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms


@pytest.fixture
def function() -> Iterator[Function]:
    """Loads the function of a name, over tables and queues of its own."""
    with mock_aws(), environment():
        queue, letters = make_queue("CommandQueue"), make_queue("CommandDeadLetters")
        names = {
            "EVENTS_TABLE": make_table("EventsTable"),
            "CATALOG_TABLE": make_table("CatalogTable"),
            "RESULTS_BUCKET": make_bucket(),
            "INLINE_STARTERS": "*",
            "COMMAND_QUEUES": f'{{"default": "{queue}"}}',
            "CONTROL_QUEUE_URL": make_queue("ControlQueue"),
            "DEAD_LETTER_QUEUES": f'["{letters}"]',
            "POWERTOOLS_TRACE_DISABLED": "1",
            "POWERTOOLS_SERVICE_NAME": "noetl",
            "POWERTOOLS_METRICS_NAMESPACE": "NoETL",
        }

        def load(name: str) -> ModuleType:
            spec = importlib.util.spec_from_file_location(f"{name}_app", FUNCTIONS / name / "app.py")
            assert spec is not None
            assert spec.loader is not None
            app = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(app)
            return app

        caches = (control_wiring.control, control_wiring.results, worker_wiring.worker)
        with environment(**names):
            for cached in caches:
                cached.cache_clear()
            yield load
        for cached in caches:
            cached.cache_clear()
