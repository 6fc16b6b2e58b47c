"""The whole examples of the texts: the pipeline, streaming pagination, nested loops."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from tests.unit.spec_examples.scripted import Played, Script, answer, model, play

DEADLOCK = Outcome.failed("db_deadlock", "deadlock detected", pg={"code": "40P01", "sqlstate": "40P01"})
BROKEN = Outcome.failed("db_constraint", "duplicate key", pg={"code": "23505", "sqlstate": "23505"})


# --- pipeline execution: fetch, transform, store ------------------------------------------------------------------------


def pipeline(fetch: Script, store: Script) -> Played:
    def script(call: ToolCall) -> Outcome:
        match call.task:
            case "fetch":
                return fetch(call)
            case "transform":
                return Outcome.ok({"seen": call.inputs["args"]["data"]})
        return store(call)

    return play("pipeline", script)


def test_the_pipeline_threads_its_data_and_routes_on_ctx() -> None:
    played = pipeline(lambda call: answer(200, [1, 2]), lambda call: Outcome.ok({"rows": 2}))
    assert played.tasks()[:-1] == ["fetch:continue", "transform:continue", "store:break"]
    assert played.called("transform")[0].inputs["args"] == {"data": {"status": 200, "data": [1, 2]}}, "_prev"
    assert played.state.ctx == {"store_ok": True}
    assert played.steps == ["fetch_transform_store", "continue"]


def test_a_passing_error_is_tried_again_in_place() -> None:
    played = pipeline(
        lambda call: answer(200) if call.attempt == 3 else answer(503),
        lambda call: Outcome.ok() if call.attempt == 2 else DEADLOCK,
    )
    assert played.tasks()[:-1] == [
        "fetch:retry",
        "fetch:retry",
        "fetch:continue",
        "transform:continue",
        "store:retry",
        "store:break",
    ]
    assert played.steps[-1] == "continue"


@pytest.mark.parametrize(
    ("fetch", "store", "last"),
    [(answer(404), None, "fetch:fail"), (answer(503), None, "fetch:fail"), (answer(200), BROKEN, "store:fail")],
    ids=["an error that no retry helps", "retries used up", "a constraint"],
)
def test_a_failure_is_handled_by_the_arc_on_step_failed(fetch: Outcome, store: Outcome | None, last: str) -> None:
    played = pipeline(lambda call: fetch, lambda call: store or Outcome.ok())
    assert played.tasks()[-2] == last
    assert played.steps == ["fetch_transform_store", "failed"]
    assert played.state.status == "completed"


# --- canonical step spec 12: streaming pagination -----------------------------------------------------------------------


class Api:
    """Endpoints by path: `pages` pages of two items; a status for what is not there; `bad` answers before each good one."""

    def __init__(self, pages: int = 1, status: int = 200, bad: int = 0) -> None:
        self.pages, self.status, self.bad = pages, status, bad

    def __call__(self, call: ToolCall) -> Outcome:
        if self.status >= 400 or call.attempt <= self.bad:
            return answer(self.status if self.status >= 400 else 503)
        page = call.inputs["params"]["page"]
        items = [{"id": 10 * page + n} for n in range(call.inputs["params"]["pageSize"])]
        return answer(200, {"data": items, "paging": {"page": page, "hasMore": page < self.pages}})


def stream(apis: dict[str, Api], store: Script = lambda call: Outcome.ok({"rows": 1})) -> Played:
    def script(call: ToolCall) -> Outcome:
        return apis[urlsplit(call.inputs["url"]).path](call) if call.kind == "http" else store(call)

    endpoints = [{"path": path, "page_size": 2} for path in apis]
    return play("streaming", script, {"api_url": "https://api.example.org", "endpoints": endpoints})


def test_the_step_is_read_as_it_is_written() -> None:
    step = model("streaming").steps[0]
    assert step.loop is not None
    assert (step.loop.exec, step.loop.max_in_flight, step.loop.failure_mode) == ("distributed", 10, "best_effort")
    assert step.tasks[1].spec == {"timeout": {"connect": 5, "read": 15}}
    assert step.timeout_s == 600


def test_every_page_of_every_endpoint_is_fetched_and_stored_in_order() -> None:
    played = stream({"/a": Api(pages=3), "/b": Api()})
    assert played.steps == ["fetch_all_endpoints", "validate_results"]
    assert played.state.steps["fetch_all_endpoints"].loop == {"total": 2, "succeeded": 2, "failed": 0}
    page = ["fetch_page:continue", "route_by_status:jump", "store_200:jump"]
    assert played.tasks([0]) == ["init_iter:continue", *[*page, "paginate:jump"] * 2, *page, "paginate:break"]
    assert played.tasks([1]) == ["init_iter:continue", *page, "paginate:break"]
    pages = [c.inputs["params"]["page"] for c in played.called("fetch_page") if c.inputs["url"].endswith("/a")]
    assert pages == [1, 2, 3]


def test_a_404_is_stored_elsewhere_and_never_falls_through_into_the_other_store() -> None:
    played = stream({"/gone": Api(status=404), "/a": Api()})
    assert played.tasks([0]) == [
        "init_iter:continue",
        "fetch_page:continue",
        "route_by_status:jump",
        "store_404:jump",
        "paginate:break",
    ]
    assert Counter(c.task for c in played.calls if c.kind == "postgres") == {"store_404": 1, "store_200": 1}
    assert played.steps[-1] == "validate_results"


def test_passing_errors_are_tried_again_with_growing_delays() -> None:
    deadlocked = {1, 2}
    played = stream({"/a": Api(bad=3)}, lambda call: DEADLOCK if call.attempt in deadlocked else Outcome.ok())
    assert [t for t in played.tasks([0]) if "retry" in t] == ["fetch_page:retry"] * 3 + ["store_200:retry"] * 2
    assert played.state.steps["fetch_all_endpoints"].loop == {"total": 1, "succeeded": 1, "failed": 0}


def test_best_effort_goes_on_past_an_endpoint_that_is_forbidden() -> None:
    played = stream({"/no": Api(status=403), "/a": Api(pages=2)})
    assert played.tasks([0]) == ["init_iter:continue", "fetch_page:fail"]
    assert played.state.steps["fetch_all_endpoints"].loop == {"total": 2, "succeeded": 1, "failed": 1}
    assert played.steps[-1] == "validate_results", "the boundary is loop.done"


def test_the_step_ends_at_its_timeout_and_cleans_up() -> None:
    played = stream({"/never": Api(status=503)})
    assert played.steps == ["fetch_all_endpoints", "cleanup"], "ten attempts would take 1,022 s, the lifecycle allows 600"
    assert played.state.steps["fetch_all_endpoints"].status == "error"


# --- canonical step spec 6.4 and 11: loops in loops ---------------------------------------------------------------------


def test_rooms_are_paged_in_order_per_hotel_while_cities_and_hotels_run_in_parallel() -> None:
    pages = {"bristol": 3, "grand": 1, "plaza": 2}

    def script(call: ToolCall) -> Outcome:
        if call.kind == "postgres":
            return Outcome.ok({"rows": 1})
        hotel, page = call.inputs["url"].rsplit("/", 1)[1], call.inputs["params"]["page"]
        return answer(200, {"rooms": [f"{hotel}-{page}"], "more": page < pages[hotel]})

    played = play("nested_loop", script)
    assert played.result == [
        [["bristol-1", "bristol-2", "bristol-3"], ["grand-1"]],
        [["plaza-1", "plaza-2"]],
    ]
    assert played.state.ctx == {"rooms": 6}
    stored = [c.inputs["params"] for c in played.called("store")]
    assert {(p["city"], p["hotel"]) for p in stored} == {("oslo", "bristol"), ("oslo", "grand"), ("rome", "plaza")}
    assert [p["rooms"] for p in stored if p["hotel"] == "bristol"] == [["bristol-1"], ["bristol-2"], ["bristol-3"]]
