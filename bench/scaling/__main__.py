"""`python -m bench.scaling` prints the model's tables, and writes them into docs/scaling.md."""

from __future__ import annotations

from bench.figures import write_between
from bench.scaling.tables import PAGE, marks, tables

if __name__ == "__main__":
    for name, text in tables().items():
        print(text)
        write_between(marks(name), text, PAGE)
    print(f"written to {PAGE}")
