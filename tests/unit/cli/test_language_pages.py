"""The language reference on this machine: what diagnostics and the JSON Schema refer to can be opened here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from noetl_cli.display.pages import folder, shown
from noetl_core.dsl.reading.diagnostics import CODES, page_of
from tests.commands import run


def test_every_page_that_a_diagnostic_names_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [page for code in CODES if (page := page_of(code)) is not None]
    assert pages
    monkeypatch.chdir(tmp_path)
    assert [page for page in pages if not Path(shown(page)).is_file()] == []
    monkeypatch.chdir(folder())
    assert shown("docs/language/lint/W501.md") == "lint/W501.md"


def test_links_of_the_schema_lead_to_pages_of_this_machine(tmp_path: Path) -> None:
    links = set(re.findall(r"file://[^\s\"\\]+", run("schema", cwd=tmp_path).stdout))
    assert len(links) > 50
    assert [link for link in links if not Path(unquote(urlparse(link).path)).is_file()] == []


def test_links_of_the_schema_lead_where_it_is_asked_to_lead(tmp_path: Path) -> None:
    schema = json.loads(run("schema", "--pages", "https://example.com/docs", cwd=tmp_path).stdout)
    assert schema["properties"]["workflow"]["description"].endswith("\nhttps://example.com/docs/language/steps.md")
    assert "file://" not in json.dumps(schema)
