"""The figures that the model takes from elsewhere: times and prices of AWS's services, each with its source.

`PUBLISHED`: AWS states it. `CITED`: somebody else measured or copied it. `ASSUMED`: no source was found; the model is computed
again over the range. Sources were looked up on `LOOKED_UP` in stored copies, which may be older than the pages. Prices are
those of us-east-1 on demand, without free tiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bench.scaling import limits

from noetl_core.observe.cost import PRICES

LOOKED_UP: Final = "2026-11-26"
Standing = Literal["published", "cited", "assumed"]
PUBLISHED: Final = "published"
CITED: Final = "cited"
ASSUMED: Final = "assumed"


@dataclass(frozen=True, slots=True)
class Source:
    """A page: its title, its address, and the date of what it states, where it has one."""

    title: str
    url: str
    date: str = ""

    def __str__(self) -> str:
        return f"[{self.title}]({self.url}){f', {self.date}' if self.date else ''}" if self.url else self.title


MESSAGING = Source(
    "Serverless messaging: latency compared (eu-west-1)",
    "https://bitesizedserverless.com/bite/serverless-messaging-latency-compared/",
    "September 2022",
)
DYNAMODB_TIMES = Source(
    "AWS promises single-digit milliseconds, and no percentiles",
    "https://aws.amazon.com/blogs/database/understanding-amazon-dynamodb-latency/",
)
WARM_START = Source(
    "no measurement within a Region was found; a study of 2018 has a median of 25 ms for warm starts",
    "https://ultracrepidarian.phfactor.net/tag/papers/",
)
NO_SOURCE = Source("no source found", "")
FLOOR = Source("measured on another processor by `python bench/floor.py`", "performance.md#where-the-time-of-a-step-goes")


@dataclass(frozen=True, slots=True)
class Time:
    """Milliseconds of a service by percentile. `least` and `most` are the ends of the range of an assumed median; the other
    percentiles move with it."""

    name: str
    quantiles: Mapping[float, float]
    standing: Standing
    source: Source
    least: float = 0.0
    most: float = 0.0

    @property
    def median(self) -> float:
        return self.quantiles[0.5]

    def scaled(self, median: float) -> Time:
        """Return the same shape with another median."""
        factor = median / self.median
        moved = {share: factor * value for share, value in self.quantiles.items()}
        return Time(self.name, moved, self.standing, self.source, self.least, self.most)


def _fixed(milliseconds: float) -> Mapping[float, float]:
    return {0.5: milliseconds}


TIMES: Final[Mapping[str, Time]] = {
    "stream": Time(
        "DynamoDB stream: from before the put to the function's start",
        {0.1: 118.0, 0.5: 213.0, 0.9: 341.0, 0.99: 552.0},
        CITED,
        MESSAGING,
    ),
    "queue": Time(
        "SQS standard queue: from before the send to the function's start",
        {0.1: 13.7, 0.5: 16.2, 0.9: 33.8, 0.99: 105.0},
        CITED,
        MESSAGING,
    ),
    "invoke": Time(
        "synchronous invocation of a warm function, without the time of its work",
        {0.5: 10.0, 0.99: 45.0},
        ASSUMED,
        WARM_START,
        5,
        25,
    ),
    "put": Time("DynamoDB: conditional put", {0.5: 4.5, 0.99: 15.0}, ASSUMED, DYNAMODB_TIMES, 3, 10),
    "read": Time("DynamoDB: get, or query of some items", {0.5: 3.0, 0.99: 11.0}, ASSUMED, DYNAMODB_TIMES, 2, 10),
    "send": Time("SQS: send of up to ten messages", {0.5: 7.0, 0.99: 35.0}, ASSUMED, NO_SOURCE, 4, 20),
    "worker": Time("processor time of a run in the worker, on a whole processor", _fixed(5.5), ASSUMED, FLOOR, 2, 11),
    "router": Time("processor time of a decision, on a whole processor", _fixed(3.7), ASSUMED, FLOOR, 1.5, 7.5),
    "stale": Time("processor time of a wake without a decision, on a whole processor", _fixed(1.5), ASSUMED, NO_SOURCE, 0.5, 3.7),
    "admit": Time("processor time of an admission, on a whole processor", _fixed(10.0), ASSUMED, NO_SOURCE, 5, 20),
    "iteration": Time(
        "processor time of an iteration in a loop, on a whole processor", _fixed(0.1), ASSUMED, NO_SOURCE, 0.05, 0.4
    ),
}
"""By the names that the model uses. A time with a median alone is the same every time."""

TASK_MS: Final = 5.0
"""Milliseconds that each task waits or computes, on all sides, for the costs."""
WHOLE_PROCESSOR_MB: Final = 1769
"""Memory with which a function has one whole processor; with less it has a part in proportion."""
POLLERS_AT_FIRST: Final = int(limits.POLLERS_AT_FIRST.value)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars of one unit."""

    name: str
    usd: float
    standing: Standing
    source: Source


DYNAMODB_PRICES = Source(
    "Amazon DynamoDB pricing, copied by Airbyte", "https://airbyte.com/data-engineering-resources/dynamodb-pricing"
)
SQS_PRICES = Source(
    "Amazon SQS pricing: complete guide, copied by CloudBurn", "https://cloudburn.io/blog/amazon-sqs-pricing", "March 2026"
)
LAMBDA_PRICES = Source("AWS Lambda pricing", "https://aws.amazon.com/lambda/pricing/", "read on 2026-09-20")
ARM_PRICES = Source(
    "AWS Lambda prices, copied by Artillery",
    "https://app.unpkg.com/artillery@2.0.28/files/lib/platform/aws-lambda/prices.js",
)
API_PRICES = Source(
    "AWS serverless cost breakdown", "https://gist.github.com/allenheltondev/d028926b7fe3b0656c96af9140ab55e3", "March 2020"
)
STEP_FUNCTIONS_PRICES = Source("AWS Step Functions pricing", "https://aws.amazon.com/step-functions/pricing/")

TARIFF: Final[Mapping[str, Price]] = {
    "dynamodb_write_units": Price("DynamoDB write unit", PRICES["dynamodb_write_units"], CITED, DYNAMODB_PRICES),
    "dynamodb_read_units": Price("DynamoDB read unit", PRICES["dynamodb_read_units"], CITED, DYNAMODB_PRICES),
    "sqs_requests": Price("SQS request", PRICES["sqs_requests"], CITED, SQS_PRICES),
    "lambda_invocations": Price("Lambda invocation", PRICES["lambda_invocations"], PUBLISHED, LAMBDA_PRICES),
    "lambda_gb_seconds": Price("Lambda GB-second, arm64", PRICES["lambda_gb_seconds"], CITED, ARM_PRICES),
    "api_requests": Price("API Gateway request (REST)", 3.5e-6, CITED, API_PRICES),
    "transitions": Price("Step Functions Standard, transition", 25e-6, PUBLISHED, STEP_FUNCTIONS_PRICES),
    "express_requests": Price("Step Functions Express, execution", 1.0e-6, PUBLISHED, STEP_FUNCTIONS_PRICES),
    "express_gb_seconds": Price("Step Functions Express, GB-second (first tier)", 0.06 / 3600, PUBLISHED, STEP_FUNCTIONS_PRICES),
    "durable_operations": Price("Lambda durable functions, operation", 8.0e-6, PUBLISHED, LAMBDA_PRICES),
}
"""The first five are those with which `noetl cost` computes."""

EXPRESS_STATE_MS: Final = 25.0
EXPRESS_STATE_MS_RANGE: Final = (10.0, 75.0)
"""Assumed: the time that a state of Express adds to its task."""
EXPRESS_MB: Final = 64
EXPRESS_STEP_MS: Final = 100
"""Executions of Express are charged for memory in steps of 64 MB and for time in steps of 100 ms (Step Functions pricing)."""
DURABLE_OPERATIONS: Final = 1.0
DURABLE_OPERATIONS_RANGE: Final = (1.0, 2.0)
"""Assumed: operations that are charged for a step or an item, and one more for each execution. Data written and kept is charged
as well, and left out."""
