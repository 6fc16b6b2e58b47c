"""The choice of the browser for the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console import browser


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        (["google-chrome", "chromium", "chromium-headless-shell"], "chromium-headless-shell"),
        (["google-chrome", "chromium"], "chromium"),
        (["google-chrome-stable"], "google-chrome-stable"),
    ],
    ids=str,
)
def test_the_browser_without_windows_is_preferred(
    there: list[str], taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in there:
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NOETL_CHROMIUM", raising=False)
    browser.executable.cache_clear()
    try:
        assert browser.executable() == str(tmp_path / taken)
    finally:
        browser.executable.cache_clear()
