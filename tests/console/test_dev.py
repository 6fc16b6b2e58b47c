"""`noetl dev` serves the console, whose pages follow the execution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from noetl_cli.commands.authoring.dev import Cycle, Graph
from noetl_cli.errors import Exit
from noetl_console.server import Console
from tests.console.browser import watched
from tests.console.http_requests import Recorder, console, let_in, own, raw
from tests.console.sample_store import DEV


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "playbook.yaml").write_text(DEV)
    served = Graph(None)
    yield served
    served.close()


def test_an_open_page_follows_each_run(
    graph: Graph, tmp_path: Path, chromium: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    playbook = tmp_path / "playbook.yaml"
    cycle = Cycle(playbook, graph=graph)
    cycle.turn()
    first = cycle.execution_id
    (address,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("graph: ")]
    assert address.endswith(f"#/executions/{first}/graph") and "/?ticket=" in address
    with watched(chromium, graph.serving) as opened:
        opened.open(f"executions/{first}/graph", "canvas")
        expect(opened.page.locator("main")).to_contain_text("completed")
        playbook.write_text(DEV.replace("result * 10", "result // 0"))
        cycle.turn()
        assert cycle.execution_id == first, "it is redriven"
        expect(opened.page.locator("main")).to_contain_text("failed", timeout=10_000)  # an ended execution is polled each 15 s
        playbook.write_text(DEV.replace("n: 2", "n: 3"))
        cycle.turn()
        opened.page.wait_for_url(f"**/#/executions/{cycle.execution_id}/graph")
        assert cycle.execution_id != first
        assert f"graph: {opened.base}#/executions/{cycle.execution_id}/graph" in capsys.readouterr().err
        opened.page.goto(opened.base)
        opened.page.wait_for_url(f"**/#/executions/{cycle.execution_id}/graph")


def test_other_consoles_follow_nothing() -> None:
    with console(Recorder()) as server:
        cookie = let_in(server)
        assert raw(server, "GET", "/newest", cookie).status == 404
        assert "following.js" not in raw(server, "GET", "/", cookie).body


def test_the_api_is_loaded_with_the_first_request_and_for_admitted_browsers_alone(graph: Graph, tmp_path: Path) -> None:
    server: Console = graph.serving
    graph.show("7")
    assert raw(server, "GET", "/newest", own(server)).status == 401
    cookie = let_in(server)
    assert raw(server, "GET", "/newest", cookie).body == "7 1 runs"
    graph.rest()
    assert raw(server, "GET", "/newest", cookie).body == "7 2"
    assert not list(tmp_path.rglob("runs.db")), "nothing is opened before it is needed"
    assert raw(server, "GET", "/api/health", cookie).status == 200
    assert list(tmp_path.rglob("runs.db"))


def test_a_port_in_use_is_refused_before_anything_runs(graph: Graph) -> None:
    with pytest.raises(Exit, match="cannot listen on port") as refused:
        Graph(None, urlsplit(graph.serving.address()).port)
    assert refused.value.code == 2
