"""One browser for all tests, and one console for all that change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.browser import Watched, browser, watched
from tests.console.page_addresses import furnished
from tests.console.sample_store import Stored, stored


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Yield one browser for the package, because a start takes as long as most modules do. Meanwhile an event loop runs in this
    process, so tests elsewhere could not begin theirs."""
    with browser() as started:
        yield started


@pytest.fixture(scope="package")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """For tests that look."""
    with stored(tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture(scope="package")
def acted_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """For tests that act, each on executions of its own."""
    with stored(tmp_path_factory.mktemp("acted")) as made:
        yield made


@pytest.fixture(scope="package")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stored, dict[str, str]]]:
    """A store that has something on every page, and its executions by their names."""
    with furnished(tmp_path_factory.mktemp("rich")) as made:
        yield made


@pytest.fixture
def hands(chromium: Browser, acted_on: Stored) -> Iterator[Watched]:
    """A page of `acted_on`."""
    with watched(chromium, acted_on.server) as opened:
        yield opened


@pytest.fixture
def page(chromium: Browser, looked_at: Stored) -> Iterator[Watched]:
    with watched(chromium, looked_at.server) as opened:
        yield opened
