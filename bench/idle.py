"""Computes the cost of an idle stack: `make idle` prints it, and writes the table of docs/operating.md.

Counted from template.yaml as it is with its default parameters. What one idle sweep does is in `SWEEP`; a test holds the function
to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.figures import write_between

from noetl_infra.template_file import read_template

ROOT = Path(__file__).parents[1]
MARKS = ("<!-- idle: written by `make idle` -->\n", "<!-- end of idle -->\n")
MINUTES = 43_800
"""Minutes in a month, and so sweeps."""
SWEEP: Mapping[str, float] = {"reads": 8, "receives": 2, "metrics": 7, "log_bytes": 2_000, "ms": 100}
"""Requests, bytes and milliseconds of a sweep that finds nothing. Bytes (Lambda's own report among them) and milliseconds are
rounded up from an emulator's."""
POLLS_PER_MINUTE = 15
"""Polls of a queue that Lambda reads: five pollers, each of which waits 20 s."""
PRICES: Mapping[str, float] = {
    "alarm": 0.10,
    "dashboard": 3.00,
    "key": 1.00,
    "secret": 0.40,
    "metric": 0.30,
    "log_gb": 0.50,
    "trace": 5e-6,
    "sqs": 0.40e-6,
    "read": 0.125e-6,
    "invocation": 0.20e-6,
    "gb_second": 13.3334e-6,
}
"""US dollars (a month where a thing is kept), us-east-1, arm64, without free tiers."""
SWEEPER_GB = 0.5


def rows(template: Mapping[str, Mapping[str, Mapping[str, object]]]) -> list[tuple[str, str, float]]:
    """Return the positions of the bill: a name, the quantity in a month, and the price."""
    there = [r for r in template["Resources"].values() if "Condition" not in r]  # every condition is off by default
    n = Counter(str(r["Type"]) for r in there)
    queues = sum(
        r["Type"] == "AWS::Lambda::EventSourceMapping" and "Queue" in str(r["Properties"]["EventSourceArn"])  # type: ignore[index]  # the template's value
        for r in there
    )
    polls = queues * POLLS_PER_MINUTE * MINUTES
    receives = SWEEP["receives"] * MINUTES
    work = MINUTES * (
        PRICES["invocation"] + SWEEP["ms"] / 1000 * SWEEPER_GB * PRICES["gb_second"] + SWEEP["reads"] * PRICES["read"]
    )
    alarms, dashboards = n["AWS::CloudWatch::Alarm"], n["AWS::CloudWatch::Dashboard"]
    keys, secrets = n["AWS::KMS::Key"], n["AWS::SecretsManager::Secret"]
    log_mb = SWEEP["log_bytes"] * MINUTES / 1e6
    return [
        ("CloudWatch dashboard", f"{dashboards}", dashboards * PRICES["dashboard"]),
        ("metrics that each sweep sends", f"{SWEEP['metrics']:.0f}", SWEEP["metrics"] * PRICES["metric"]),
        ("alarms", f"{alarms}", alarms * PRICES["alarm"]),
        ("KMS key in its first year ($1 more in the second, $2 more from the third on)", f"{keys}", keys * PRICES["key"]),
        ("SQS requests: Lambda polls", f"{queues} queues, {polls:,.0f}", polls * PRICES["sqs"]),
        ("secret that signs", f"{secrets}", secrets * PRICES["secret"]),
        ("X-Ray traces of sweeps", f"{MINUTES:,}", MINUTES * PRICES["trace"]),
        ("sweeps: invocations, time, reads", f"{MINUTES:,}, {SWEEP['ms']:.0f} ms each", work),
        ("log lines of sweeps", f"{log_mb:.0f} MB", log_mb / 1000 * PRICES["log_gb"]),
        ("SQS requests: sweeps look for dead letters", f"{receives:,.0f}", receives * PRICES["sqs"]),
    ]


def table() -> str:
    """The rows as Markdown, and their sum."""
    found = rows(read_template(ROOT / "template.yaml"))
    lines = [f"| {what} | {amount} | {dollars:.2f} |" for what, amount, dollars in found]
    total = sum(dollars for _, _, dollars in found)
    return "\n".join(["| a month | | USD |", "|---|---|---|", *lines, f"| **all of it** | | **{total:.2f}** |"]) + "\n"


if __name__ == "__main__":
    print(table(), end="")
    write_between(MARKS, table(), ROOT / "docs" / "operating.md")
