"""The output of a running task is visible while it runs, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from noetl_console.local import LocalApi
from noetl_core.control.admit import register
from noetl_core.runtime.local import LocalWiring
from tests.console.barriers import barriers
from tests.console.browser import watched
from tests.console.http_requests import console
from tests.console.sample_store import HEAD, IMAGE

CANARY = "canary-5b1d7e90aa"
SLOW = (
    HEAD
    + f"""metadata: {{ name: slow, path: demo/slow }}
keychain: [{{ name: door, kind: credential, credential: door.key }}]
workflow:
  - step: start
    tool:
      kind: python
      args: {{ key: "{{{{ keychain.door.password }}}}" }}
      code: |
        import time
        print("opens with", key)
        print("{IMAGE}", flush=True)
        time.sleep(4)
        print("is open")
"""
)


@pytest.mark.nightly
def test_logs_are_seen_while_the_task_runs(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    (tmp_path / "credentials.json").write_text(json.dumps({"door.key": {"type": "password", "data": {"password": CANARY}}}))
    (tmp_path / "credentials.json").chmod(0o600)
    wiring = LocalWiring(str(tmp_path / "runs.db"))
    register(wiring.control, SLOW)
    wiring.close()
    api = LocalApi(str(tmp_path / "runs.db"))
    with console(api) as server, watched(chromium, server) as hands:
        page, answers = hands.page, list[str]()
        page.on("response", lambda r: answers.append(r.text()) if "/logs" in r.url else None)
        hands.open("playbooks/demo%2Fslow?start=1", "dialog")
        page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
        page.get_by_role("link", name="Logs", exact=True).click()
        log = page.locator(".log article")
        expect(log).to_contain_text("opens with ***")
        expect(log).to_contain_text("running")
        expect(log).to_contain_text(IMAGE)
        assert "is open" not in page.content()
        assert page.locator("img[onerror]").count() == 0
        assert barriers(page) == []
        (held,) = (tmp_path / "running").iterdir()
        assert CANARY not in held.read_text() + page.content()
        expect(log).to_contain_text("is open")
        expect(log).to_have_count(1)
        expect(log).not_to_contain_text("running")
        assert CANARY not in "".join(answers)
    api.close()
    assert list((tmp_path / "running").iterdir()) == []
