"""The published limits of the services, each with its source.

Looked up on `LOOKED_UP` in stored copies of the pages named; a copy may be older than the page. Values are those of us-east-1
for an account without raised quotas."""

from __future__ import annotations

from dataclasses import dataclass

LOOKED_UP = "2026-11-22"
DOCS = "https://docs.aws.amazon.com"
DYNAMODB = f"{DOCS}/amazondynamodb/latest/developerguide"
LAMBDA = f"{DOCS}/lambda/latest/dg"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a service: its value, whether AWS raises it on request, and the page that says so."""

    what: str
    value: float
    unit: str
    source: str
    raised: bool = False


PARTITION_WRITES = Limit(
    "writes to one partition of a table or an index",
    1_000,
    "units/s",
    f"{DYNAMODB}/throttling-key-range-limit-exceeded-mitigation.html",
)
PARTITION_READS = Limit(
    "reads from one partition", 3_000, "units/s", f"{DYNAMODB}/throttling-key-range-limit-exceeded-mitigation.html"
)
NEW_TABLE = Limit(
    "writes that a new on-demand table takes at first; later it takes twice its highest traffic so far,"
    " and more than that only after 30 minutes",
    4_000,
    "units/s",
    f"{DYNAMODB}/on-demand-capacity-mode.html",
)
TABLE_WRITES = Limit("writes of an on-demand table", 40_000, "units/s", f"{DYNAMODB}/on-demand-capacity-mode.html", raised=True)
STREAM_PARALLEL = Limit("batches of one stream shard at a time", 10, "batches", f"{LAMBDA}/services-ddb-params.html")
QUEUE_IN_FLIGHT = Limit(
    "messages of a standard queue received and not deleted",
    120_000,
    "messages",
    f"{DOCS}/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html",
    raised=True,
)
QUEUE_BATCH = Limit(
    "messages of a request", 10, "messages", f"{DOCS}/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"
)
POLLERS_AT_FIRST = Limit("batches of a queue at a time, at first", 5, "batches", f"{LAMBDA}/services-sqs-scaling.html")
POLLERS_PER_MINUTE = Limit("batches that Lambda adds", 300, "batches/min", f"{LAMBDA}/services-sqs-scaling.html")
POLLERS = Limit("batches of a queue at a time", 1_000, "batches", f"{LAMBDA}/services-sqs-scaling.html")
CONCURRENCY = Limit(
    "invocations of an account at a time", 1_000, "invocations", f"{LAMBDA}/gettingstarted-limits.html", raised=True
)
CONCURRENCY_RAMP = Limit("environments that a function gains in 10 s", 1_000, "environments", f"{LAMBDA}/scaling-behavior.html")
API = Limit(
    "requests to all APIs of an account",
    10_000,
    "requests/s",
    f"{DOCS}/apigateway/latest/developerguide/limits.html",
    raised=True,
)
S3_PUTS = Limit(
    "puts to one partition of a bucket's keys", 3_500, "puts/s", f"{DOCS}/AmazonS3/latest/userguide/optimizing-performance.html"
)

LIMITS = (
    PARTITION_WRITES,
    PARTITION_READS,
    NEW_TABLE,
    TABLE_WRITES,
    STREAM_PARALLEL,
    QUEUE_IN_FLIGHT,
    QUEUE_BATCH,
    POLLERS_AT_FIRST,
    POLLERS_PER_MINUTE,
    POLLERS,
    CONCURRENCY,
    CONCURRENCY_RAMP,
    API,
    S3_PUTS,
)
