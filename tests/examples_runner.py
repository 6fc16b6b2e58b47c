"""Runs an example in this process, with its services; and holds the expected results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl_cli.inputs.services import services_for
from noetl_core.control.admit import StartRequest
from noetl_core.engine.state import State
from noetl_core.log.stored_values import Values
from noetl_core.runtime.local import LocalWiring

EXAMPLES = Path(__file__).parents[1] / "examples"

CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("hello", {}, {"greeting": "Hello, world!"}),
    ("hello", {"name": "Ada"}, {"greeting": "Hello, Ada!"}),
    ("retry", {}, {"succeeded_at_attempt": 3}),
    ("environments", {}, {"environment": "dev", "api": "http://127.0.0.1:8000", "batches": 3, "signed_in": False}),
    (
        "environments",
        {"environment": "prod", "api": "https://api.example.org", "batch": 500},
        {"environment": "prod", "api": "https://api.example.org", "batches": 1, "signed_in": False},
    ),
    ("join", {}, {"total": 31, "largest": 9}),
    (
        "etl",
        {"months": [2]},
        {"flights": 24951, "rows_read": 24951, "chunks": 5, "serialization_failures": 1, "matches_source": True},
    ),
    ("quantum", {}, [0, 0.25, 0.5, 1]),
    ("sub_loop", {}, {"north": 27, "south": 81}),
    (
        "upload",
        {"s3": {"bucket": "inbox", "key": "triggers/examples/upload/a.json", "size": 3, "object": [{"a": 1}, {"a": 2}]}},
        {"object": "s3://inbox/triggers/examples/upload/a.json", "size": 3, "rows": 2},
    ),
    ("weather_loop", {}, {"alert": True, "cities": ["Newark"], "message": "hotter than 99 F: Newark"}),
    ("weather_loop", {"temperature_threshold": 101}, {"alert": False, "cities": [], "message": "no city was hotter than 101 F"}),
    ("weather_loop", {"state": "draft"}, {"alert": False, "cities": [], "message": "nothing to do: not ready"}),
    (
        "approval",
        {"patience": 0.05},
        {
            "decision": "lapsed",
            "by": None,
            "asked": [f"{before}Release version 2? ({who})" for who in ("Ada", "Grace") for before in ("", "Reminder: ")],
        },
    ),
]


@dataclass(frozen=True)
class Ended:
    """The end of an example."""

    status: str
    result: Any
    error: Mapping[str, Any] | None
    state: State


def run_example(name: str, store: Path, payload: Mapping[str, Any] | None = None, timeout_s: float = 120) -> Ended:
    """Run examples/<name>/playbook.yaml to its end on a store file at `store`."""
    playbook = EXAMPLES / name / "playbook.yaml"
    local = LocalWiring(store)
    try:
        with services_for(playbook, payload) as addresses:
            request = StartRequest(playbook=playbook.read_text(), payload={**addresses, **(payload or {})})
            started = local.start(request)
            assert local.run(started.execution_id, timeout_s=timeout_s), f"example {name} did not end within {timeout_s} s"
            state = local.control.load(started.execution_id)
            values = Values(local.store, local.results, started.execution_id)
            result = values.at(state.result)
            if isinstance(result, Mapping) and result.get("kind") == "result_ref":
                result = values.reference(result)
            return Ended(state.status, result, state.failure, state)
    finally:
        local.close()
