"""The flights API serves every row once, in pages, and fails on schedule."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.servers import serving

FLIGHTS = Path(__file__).parents[3] / "examples" / "flights"


@pytest.fixture(scope="module")
def api() -> Iterator[Any]:
    sys.path.insert(0, str(FLIGHTS))
    try:
        server = import_module("server")
    finally:
        sys.path.remove(str(FLIGHTS))
    with serving(server.Api()) as running:
        yield running


def get(api: Any, path: str, run: str = "test") -> tuple[int, dict[str, Any], dict[str, str]]:
    request = urllib.request.Request(f"http://127.0.0.1:{api.port}{path}", headers={"X-Run": run})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read()), dict(answer.headers)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read()), dict(refused.headers)


def all_pages(api: Any, month: int, run: str) -> tuple[list[dict[str, Any]], list[int]]:
    rows, faults, page = [], [], 1
    while True:
        status, body, _ = get(api, f"/flights?month={month}&page={page}&page_size=2000", run)
        if status != 200:
            faults.append(status)
            continue
        rows += body["data"]
        if not body["paging"]["hasMore"]:
            return rows, faults
        page += 1


@pytest.mark.nightly
def test_the_pages_of_a_month_hold_every_row_once_and_the_sums_of_the_summary(api: Any) -> None:
    rows, faults = all_pages(api, 2, "a")
    month = get(api, "/summary")[1]["months"][1]
    assert len({row["id"] for row in rows}) == len(rows) == month["flights"] == 24_951
    assert {row["month"] for row in rows} == {2}
    delays = [row["dep_delay"] for row in rows if row["dep_delay"] is not None]
    assert (len(delays), sum(delays)) == (month["departed"], month["dep_delay_sum"])
    assert sum(row["distance"] for row in rows) == month["distance_sum"]
    assert set(faults) <= {429, 503}


@pytest.mark.nightly
def test_the_summary_counts_the_whole_year(api: Any) -> None:
    summary = get(api, "/summary")[1]
    assert summary["total"] == 336_776 == sum(month["flights"] for month in summary["months"])
    assert [month["month"] for month in summary["months"]] == list(range(1, 13))


@pytest.mark.nightly
def test_a_faulty_page_fails_once_per_run_and_says_when_to_come_back(api: Any) -> None:
    server = import_module("server")
    faulty = {kind: next((m, p) for m in range(1, 13) for p in range(1, 13) if server.fault(m, p) == kind) for kind in (429, 503)}
    for kind, (month, page) in faulty.items():
        for run in ("first", "second"):
            status, _, headers = get(api, f"/flights?month={month}&page={page}", run)
            assert status == kind
            assert headers.get("Retry-After") == ("1" if kind == 429 else None)
            assert get(api, f"/flights?month={month}&page={page}", run)[0] == 200
    assert get(api, "/stats?run=first")[1]["faults"] == {"429": 1, "503": 1, "total": 2}
    assert get(api, "/stats?run=first")[1]["pages"] == 2


def test_a_year_of_pages_meets_faults_of_both_kinds(api: Any) -> None:
    server = import_module("server")
    faults = [server.fault(month, page) for month in range(1, 13) for page in range(1, 16)]
    assert faults.count(429) >= 5
    assert faults.count(503) >= 5


@pytest.mark.parametrize(
    "path", ["/flights", "/flights?month=13", "/flights?month=1&page=0", "/flights?month=1&page_size=100000", "/flights?month=x"]
)
def test_a_wrong_question_is_refused(api: Any, path: str) -> None:
    status, body, _ = get(api, path)
    assert status == 400
    assert "must be a number" in body["error"]


def test_the_page_after_the_last_is_empty(api: Any) -> None:
    status, body, _ = get(api, "/flights?month=1&page=999", "empty")
    assert status == 200
    assert body["data"] == []
    assert body["paging"]["hasMore"] is False


def test_weather_knows_three_cities(api: Any) -> None:
    status, body, _ = get(api, "/weather?city=Newark&month=7")
    assert (status, body["station"], body["temp"]["max"]) == (200, "EWR", 100.04)
    assert get(api, "/weather?city=jfk")[1]["city"] == "New York"
    assert get(api, "/weather?city=Atlantis")[0] == 404
