"""The report: one page of HTML, whole in itself, small, with nothing that a value could do in it."""

from __future__ import annotations

import re
from functools import partial
from operator import itemgetter
from pathlib import Path

import pytest

from noetl_core.control.admit import StartRequest
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.operations.base import Operations
from tests.console.charts import fans, page_of
from tests.golden import logs
from tests.golden.logs import FOLDER
from tests.markup import HOSTILE, Page
from tests.unit.cli.runs import Run

STEPS = 1_000
ONE = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: one, path: t/one }\nworkflow:\n  - { step: one, tool: { kind: noop } }\n"
LIMIT = 1_000_000


@pytest.mark.nightly
def test_every_recorded_history_has_a_report(tmp_path: Path) -> None:
    for name in sorted(path.stem for path in FOLDER.glob("*.json")):
        history = logs.read(name)
        world = history.world()
        text = page_of(Operations(partial(itemgetter(0), world.controls), lambda: b""), history.execution_id)
        page = Page(text)
        assert "script" not in page.tags and not page.handlers, name
        assert all(address.startswith("#") for address in page.addresses), (name, page.addresses)
        assert "prefers-color-scheme: dark" in text and "default-src 'none'" in text
        assert not re.search(r"https?://(?!www\.w3\.org/)", re.sub(r"<pre>.*?</pre>|<td>.*?<td", "", text, flags=re.DOTALL)), name


def test_values_and_names_are_escaped_in_the_report(noetl: Run, tmp_path: Path) -> None:
    (tmp_path / "hostile.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: h, path: test/hostile }\nworkflow:\n"
        "  - step: start\n    tool: { kind: python, args: { text: '"
        + HOSTILE
        + "' }, code: 'print(text); raise ValueError(text)' }\n"
        "    set_ctx: { x: 1 }\n"
    )
    assert noetl("run", "hostile.yaml").returncode == 1
    assert noetl("report", "@last", "-o", "out.html").stdout.startswith("out.html: ")
    text = (tmp_path / "out.html").read_text()
    assert "&lt;img src=x" in text
    assert Page(text).tags.isdisjoint({"script", "img"})
    assert noetl("report", "@last", "-o", "nowhere/out.html").returncode == 3


def test_a_large_graph_is_folded_and_begins_at_the_step_that_failed() -> None:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=fans())).execution_id
    assert local.run(execution_id)
    text = page_of(Operations(lambda: local.control, lambda: b""), execution_id)
    local.close()
    assert text.count("12 branches</text>") == 7 and "11 branches</text>" in text and ">load_2_4</text>" not in text
    (failed,) = re.findall(r"<g id='(step-\d+)' class='step error' data-step='check_5_7'>", text)
    assert f'<p><a class="error" href="#{failed}">✗ check_5_7</a></p>' in text
    assert '<i class="begin"' in text and f'<a href="#{failed}" tabindex="-1"><title>check_5_7</title>' in text
    assert len(text.encode()) < LIMIT / 4
    assert Page(text).tags.isdisjoint({"script", "img"})


def test_a_small_graph_needs_no_map() -> None:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=ONE)).execution_id
    assert local.run(execution_id)
    text = page_of(Operations(lambda: local.control, lambda: b""), execution_id)
    local.close()
    assert "<figure" in text and 'class="map"' not in text and '<i class="begin"' not in text


@pytest.mark.nightly
def test_a_thousand_steps_fit_into_a_megabyte(noetl: Run, tmp_path: Path) -> None:
    steps = "".join(
        f"  - {{ step: step_{n}, tool: {{ kind: noop, result: \"{{{{ 'x' * 300 }}}}\" }}, next: {{ arcs: [{{ step: step_{n + 1} }}] }} }}\n"
        for n in range(STEPS - 1)
    )
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: long, path: test/long }\nworkflow:\n"
    (tmp_path / "long.yaml").write_text(f"{head}{steps}  - {{ step: step_{STEPS - 1}, tool: {{ kind: noop }} }}\n")
    assert noetl("run", "long.yaml", "--output", "json").returncode == 0
    text = noetl("report", "@last", "-o", "-").stdout
    assert len(text.encode()) < LIMIT
    assert all(f"<td>step_{n}<" in text for n in range(STEPS))
