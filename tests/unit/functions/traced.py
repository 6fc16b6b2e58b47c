"""Runs a function as Lambda would, traced, and prints what left it: segments for X-Ray, and everything logged.

`python -m tests.unit.functions.traced FUNCTION` with a JSON list of events on standard input. A process of its own, because the
X-Ray SDK patches modules for good. The last line of standard output is `{"segments", "answers", "patched"}`; all other output would be
in CloudWatch.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.contract.aws import environment, make_bucket, make_queue, make_table
from tests.fast_moto import mock_aws

ROOT = Path(__file__).parents[3]


class Context(SimpleNamespace):
    """A Lambda context."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


CONTEXT = Context(function_name="f", memory_limit_in_mb=512, invoked_function_arn="arn:aws:lambda:::f", aws_request_id="req-1")


def main(function: str, events: list[Any]) -> dict[str, Any]:
    """Invoke `function` with each event; an event `{"message": true}` is the next command of the queue, delivered."""
    os.environ |= {
        "LAMBDA_TASK_ROOT": str(ROOT),
        "AWS_LAMBDA_FUNCTION_NAME": function,
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        "AWS_XRAY_CONTEXT_MISSING": "IGNORE_ERROR",
        "POWERTOOLS_SERVICE_NAME": "noetl",
        "POWERTOOLS_METRICS_NAMESPACE": "NoETL",
        "NOETL_HTTP_ALLOW_PRIVATE": "1",
    }
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)  # as with LogLevel DEBUG: Lambda sets it on the root logger
    xray: Any = import_module("aws_xray_sdk.core")
    segments: list[str] = []
    xray.xray_recorder.configure(emitter=SimpleNamespace(send_entity=lambda e: segments.append(e.serialize())), sampling=False)
    spec = importlib.util.spec_from_file_location("function_app", ROOT / "functions" / function / "app.py")
    assert spec is not None and spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    answers = [app.handler(_event(e), CONTEXT) for e in events]
    return {"segments": segments, "answers": answers, "patched": sorted(xray.patcher._PATCHED_MODULES)}


def _event(event: Any) -> Any:
    if event != {"message": True}:
        return event
    from noetl_core.adapters.aws.clients import client

    (queue,) = json.loads(os.environ["COMMAND_QUEUES"]).values()
    message = client("sqs").receive_message(QueueUrl=queue)["Messages"][0]
    arn = "arn:aws:sqs:us-east-1:000000000000:" + queue.rpartition("/")[2]
    record = {"messageId": "m", "receiptHandle": message["ReceiptHandle"], "body": message["Body"], "eventSourceARN": arn}
    return {
        "Records": [{**record, "eventSource": "aws:sqs", "attributes": {"ApproximateReceiveCount": "1"}, "messageAttributes": {}}]
    }


def start_service() -> None:
    """Tables, queues and a credential, and the environment that names them."""
    from noetl_core.adapters.aws.clients import client

    key = client("secretsmanager").create_secret(Name="signing", SecretString="x" * 48)["ARN"]
    os.environ |= {
        "EVENTS_TABLE": make_table("EventsTable"),
        "CATALOG_TABLE": make_table("CatalogTable"),
        "RESULTS_BUCKET": make_bucket(),
        "INLINE_STARTERS": "*",
        "COMMAND_QUEUES": json.dumps({"default": make_queue("CommandQueue")}),
        "CONTROL_QUEUE_URL": make_queue("ControlQueue"),
        "CALLBACK_SECRET": key,
        "SECRETS_PREFIX": "noetl/",
    }
    for name, value in json.loads(os.environ.pop("CREDENTIALS", "{}")).items():
        client("secretsmanager").create_secret(Name=f"noetl/{name}", SecretString=json.dumps(value))
    if source := os.environ.pop("PLAYBOOK", ""):
        from noetl_core.control.admit import StartRequest, admit
        from noetl_core.runtime.control_wiring import control

        admit(control(), StartRequest(playbook=source, payload=json.loads(os.environ.pop("PAYLOAD", "{}"))))


if __name__ == "__main__":
    with mock_aws(), environment():
        start_service()
        sys.stdout.write(json.dumps(main(sys.argv[1], json.load(sys.stdin))) + "\n")
