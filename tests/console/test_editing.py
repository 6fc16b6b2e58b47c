"""The help for an editor over HTTP: the language server's analysis, for any text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_console.editing import LONGEST, ROUTE
from noetl_console.local import LocalApi
from noetl_console.server import Console
from tests.console.http_requests import Reply, console, let_in, raw
from tests.unit.lsp.texts import HOSTILE, ORDERS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    folder: Path = tmp_path_factory.mktemp("editing")
    api = LocalApi(str(folder / "runs.db"), folder)
    with console(api) as serving:
        yield serving
    api.close()


@pytest.fixture(scope="module")
def page(server: Console) -> dict[str, str]:
    return let_in(server)


def sent(server: Console, page: dict[str, str], body: object) -> Reply:
    text = json.dumps(body).encode()
    return raw(server, "POST", ROUTE, {**page, "Content-Length": str(len(text))}, text)


def help_at(server: Console, page: dict[str, str], text: str) -> dict[str, Any]:
    """Return the help at `¦`."""
    before, after = text.split("¦")
    answered = sent(server, page, {"source": before + after, "at": len(before.encode("utf-16-le")) // 2})
    assert answered.status == 200, answered.body
    found: dict[str, Any] = json.loads(answered.body)
    return found


def test_names_of_templates_are_offered_and_explained_where_the_cursor_is(server: Console, page: dict[str, str]) -> None:
    def offered(old: str, new: str) -> list[str]:
        found = help_at(server, page, ORDERS.replace(old, new))["offered"]
        return [each["label"] for each in found["options"]] if found is not None else []

    about = help_at(server, page, ORDERS.replace("ctx.pages", "ctx.pa¦ges"))["about"]
    at = len(ORDERS[: ORDERS.index("ctx.pages")].encode("utf-16-le")) // 2 + 4  # 📦 is two units
    assert about == {"from": at, "to": at + 5, "text": "pages: `ctx.pages`, written by step `fetch`."}
    assert offered("{{ ctx.pages }}", "{{ ctx.¦") == ["pages"]
    assert "count" in offered("{{ steps.count.result.total }}", "{{ steps.¦ }}")
    assert offered("{{ steps.count.result.total }}", "{{ steps.count.result.¦ }}") == ["total"], "of the last valid version"
    assert "day" in offered("{{ iter.seen > 3 }}", "{{ iter.¦ }}")
    assert "http" in offered("{{ outcome.status == 'error' }}", "{{ outcome.¦ }}")
    assert "selectattr" in offered("map(attribute='open') | list", "¦")
    assert offered("        - step: count", "        - step: ¦") == ["fetch", "count", "done"]
    key = help_at(server, page, ORDERS.replace("    desc: 取得 📦📦\n", "    des¦\n"))["offered"]["options"][0]
    assert (key["label"], key["apply"], key["type"]) == ("desc", "desc: ", "property")


def test_any_text_is_answered_and_a_long_or_malformed_request_refused(server: Console, page: dict[str, str]) -> None:
    for name, text in ((name, text[:1_000_000]) for name, text in HOSTILE.items()):
        for at in (-1, 0, 7, len(text) // 2, 10**20):
            status = sent(server, page, {"source": text, "at": at}).status
            assert status == (200 if len(text) <= LONGEST else 413), name
    bodies: list[object] = [[], "x", {"source": 1, "at": 1}, {"source": "x"}, {"source": "x", "at": "1"}]
    for malformed in bodies:
        assert sent(server, page, malformed).status == 400
    assert raw(server, "POST", ROUTE, {**page, "Content-Length": "100000"}, b"[" * 100_000).status == 400
