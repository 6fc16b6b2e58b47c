"""Measures the processor time of one request to DynamoDB: as the engine sends it, and through botocore's client.

    python -m bench.functions.direct_requests --requests 300

Services that answer at once run in another thread; only the time of the thread that sends counts. The two ways are measured in
turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.figures import Figure, print_table
from bench.functions.aws_stub import Services
from tests.contract.aws import environment
from tests.servers import serving, url_of

from noetl_core.aws import direct_requests
from noetl_core.aws.clients import client

ITEM = {
    "pk": {"S": "r#01ABCDEF#3"},
    "sk": {"S": f"{'r' * 25}#0000000003"},
    "v": {"N": "3"},
    "execution_id": {"S": "01ABCDEF"},
    "ts": {"N": "1234567890123"},
    "writer": {"S": "w" * 32},
    "wake": {"N": "1"},
    "lease_until": {"N": "1234567890123"},
    "body": {"B": b"x" * 500},
}
PUT: dict[str, Any] = {
    "TableName": "events",
    "Item": ITEM,
    "ConditionExpression": "attribute_not_exists(pk) OR expires_at < :now",
    "ExpressionAttributeValues": {":now": {"N": "1234567890"}},
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}
QUERY: dict[str, Any] = {
    "TableName": "events",
    "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
    "ExpressionAttributeValues": {":pk": ITEM["pk"], ":first": {"S": ""}, ":last": {"S": "z"}},
}


def milliseconds(send: Callable[[], object], requests: int) -> float:
    """Return the processor time of one request, in milliseconds."""
    before = time.thread_time()
    for _ in range(requests):
        send()
    return (time.thread_time() - before) / requests * 1e3


def figures(requests: int, rounds: int = 5) -> list[Figure]:
    """Return the time of each request both ways, and the ratio of their medians."""
    with serving(Services()) as services, environment(AWS_ENDPOINT_URL=url_of(services)):
        botocores = client("dynamodb")
        sends: dict[str, Callable[[], object]] = {
            "put": lambda: direct_requests.put_item(**PUT),
            "put, by botocore": lambda: botocores.put_item(**PUT),
            "query of one item": lambda: direct_requests.query(**QUERY),
            "query of one item, by botocore": lambda: botocores.query(**QUERY),
        }
        for send in sends.values():
            milliseconds(send, 30)
        taken = [{name: milliseconds(send, requests) for name, send in sends.items()} for _ in range(rounds)]
    samples = {name: tuple(each[name] for each in taken) for name in sends}
    ours = [name for name in sends if f"{name}, by botocore" in sends]
    ratios = {name: statistics.median(samples[name]) / statistics.median(samples[f"{name}, by botocore"]) for name in ours}
    return [
        *(Figure(name, "ms", times) for name, times in samples.items()),
        *(Figure(f"{name}: share of botocore's time", "", (ratio,)) for name, ratio in ratios.items()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    options = parser.parse_args()
    print_table("A request to DynamoDB, processor time", figures(options.requests))


if __name__ == "__main__":
    main()
