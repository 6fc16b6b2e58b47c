"""Executions in notebooks: what they show, and that names and values in it are text."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest

import noetl_core
from noetl_core.control.admit import StartRequest
from noetl_core.runtime.embedded import Execution
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.operations.base import Operations
from tests.markup import HOSTILE, Page

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: n, path: mine/n }\n"
TWO = HEAD + (
    "workload: { text: hello }\nworkflow:\n"
    "  - step: first\n    tool: { kind: noop, result: '{{ workload.text }}' }\n    next: { arcs: [{ step: second }] }\n"
    "  - step: second\n    tool: { kind: python, args: { text: '{{ workload.text }}' }, code: 'raise ValueError(text)' }\n"
)
LABEL = HEAD + "workflow:\n  - step: first\n    desc: '<script>alert(1)</script>'\n    tool: { kind: noop, result: '%s' }\n"


def drawn(html: str) -> str:
    """The drawing in a part of a page."""
    (image,) = re.findall(r'<img alt="graph" src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]*)">', html)
    return b64decode(image).decode()


def test_an_execution_shows_its_graph_steps_error_and_result() -> None:
    html = noetl_core.run(TWO)._repr_html_()
    assert "mine/n" in html and "✗ failed" in html
    assert "Why it failed" in html and "ValueError: hello" in html
    assert re.search(r"<td>first<td>.*completed|<td>first<td>.*ok", html)
    assert ">first</text>" in drawn(html) and ">second</text>" in drawn(html)
    assert "<h2>Result</h2>" in noetl_core.run(TWO.replace("raise ValueError(text)", "result = 1"))._repr_html_()


def test_an_execution_of_a_store_or_a_stack_is_shown_as_it_is_now() -> None:
    local = LocalWiring()
    execution_id = local.start(StartRequest(playbook=TWO)).execution_id
    local.run(execution_id)
    execution = Execution(local, execution_id)
    view = noetl_core.View(Operations(lambda: local.control, lambda: b""), execution_id)
    assert view._repr_html_() == execution._repr_html_()
    assert repr(view) == repr(execution) == f"<Execution {execution.id} failed>"
    local.close()


@pytest.mark.parametrize("text", [HOSTILE, "</div></pre></td><style>*{display:none}</style>", "\"' onmouseover=alert(1) x='"])
def test_hostile_values_and_names_are_text(text: str) -> None:
    html = noetl_core.run(TWO, {"text": text})._repr_html_()
    page = Page(html)
    assert page.tags <= {"div", "style", "h1", "h2", "p", "br", "b", "span", "pre", "img", "table", "tr", "th", "td"}
    assert not page.handlers
    assert [address.partition(",")[0] for address in page.addresses] == ["data:image/svg+xml;base64"]
    assert html.count("<style>") == html.count("</div>") == 1
    assert Page(drawn(noetl_core.run(LABEL % "x")._repr_html_())).tags.isdisjoint({"script", "img", "foreignobject"})


def test_styles_reach_nothing_outside() -> None:
    html = noetl_core.run(HEAD + "workflow:\n  - step: a\n    tool: { kind: noop }\n")._repr_html_()
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert all(rule.strip().startswith(".noetl ") for rule in re.findall(r"([^{}]+)\{", style))


@pytest.mark.nightly
def test_importing_and_running_loads_nothing_of_it() -> None:
    code = "import sys, noetl_core; noetl_core.run; print([m for m in sys.modules if 'notebook' in m or 'observe.report' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.nightly  # a kernel takes seconds; the tests above have the same HTML
def test_a_notebook_shows_it(tmp_path: Path) -> None:
    import nbclient  # 700 ms, with the next: only this test
    import nbformat

    (tmp_path / "two.yaml").write_text(TWO)
    cell = {"cell_type": "code", "source": "import noetl_core\nnoetl_core.run('two.yaml')", "metadata": {}, "outputs": []}
    kernel = {"name": "python3", "display_name": "Python"}
    document = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel},
        "cells": [{**cell, "id": "a", "execution_count": None}],
    }
    notebook = nbformat.from_dict(document)  # type: ignore[no-untyped-call]  # nbformat has no types
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = notebook.cells[0].outputs[0]["data"]
    assert "Why it failed" in shown["text/html"]
    assert shown["text/plain"].startswith("<Execution ")
