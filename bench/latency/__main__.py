"""`make latency` prints times and costs of a step on AWS as the model has them, and writes them into docs/performance.md."""

from __future__ import annotations

from bench.figures import write_between
from bench.latency.tables import MARKS, PAGE, section

if __name__ == "__main__":
    text = section()
    print(text)
    write_between(MARKS, text, PAGE)
    print(f"written to {PAGE}")
