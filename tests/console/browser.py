"""A real browser for the console's tests: Chromium or Chrome of this machine, driven by Playwright."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from tempfile import gettempdir

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from noetl_console.server import Console

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first is the same browser without its windows: a page costs a third of the processor time."""
PACKAGES = ("chromium-headless-shell", "chromium")
"""Packages of Debian; Ubuntu has only the second."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 20_000


@cache
def executable() -> str:
    """Return the path of the browser: `NOETL_CHROMIUM`, or one on the path. If there is none, the package of Debian or Ubuntu is
    installed, because these tests are skipped nowhere."""
    if named := os.environ.get("NOETL_CHROMIUM"):
        return named
    with _one_at_a_time():
        if _found() is None:
            _install()
        found = _found()
    assert found is not None, "no browser: install chromium, or name one in NOETL_CHROMIUM"
    return found


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Processes of a suite look for a browser at the same time: one installs it, and the others wait, as half of it is no browser."""
    with open(os.path.join(gettempdir(), f"noetl-chromium-{os.geteuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install() -> None:
    sudo = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    apt_get = [*sudo, "apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=300"]
    subprocess.run([*apt_get, "update"], check=True, stdout=subprocess.DEVNULL)
    for package in PACKAGES:
        command = [*apt_get, "install", "--yes", "--no-install-recommends", package]
        if subprocess.run(command, check=package == PACKAGES[-1], stdout=subprocess.DEVNULL).returncode == 0:
            return


def _found() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable(), headless=True, args=list(FLAGS))
        try:
            yield started
        finally:
            started.close()


class Watched:
    """A page, and what went wrong in it: errors of scripts, violations of the policy, requests that left this machine. Requests that
    the API refuses are no errors of the page."""

    def __init__(self, page: Page, server: Console) -> None:
        self._page = page
        self._server = server
        self._admitted = False
        self.base = f"http://127.0.0.1:{server.server_port}/"
        self.wrong: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("console", self._console_message)
        page.on("request", self._asked)

    @property
    def page(self) -> Page:
        """The page, which is let in and shows the list if nothing has been opened yet."""
        if not self._admitted:
            self._enter()
        return self._page

    def _enter(self, address: str = "") -> None:
        self._admitted = True
        self._page.goto(self._server.address() + address)

    def _console_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.wrong.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith((self.base, "data:")):
            self.wrong.append(f"request to {request.url}")

    def open(self, address: str, ready: str | None = None) -> None:
        """Go to an address such as `executions/17/graph`, and wait until `ready` (a selector) is there. A page that has shown nothing
        yet shows no list before it, which took a third of the processor time of most tests."""
        if self._admitted:
            self._page.goto(f"{self.base}#/{address}")
        else:
            self._enter(f"#/{address}")
        if ready:
            self._page.wait_for_selector(ready)


@contextmanager
def watched(
    started: Browser, server: Console, *, dark: bool = False, width: int = 1360, height: int = 820, timezone: str | None = None
) -> Iterator[Watched]:
    """A page that is let in, in a browser that remembers nothing; raises `AssertionError` where something went wrong in it."""
    context = started.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        timezone_id=timezone,
        reduced_motion="reduce",  # the processor would draw animations, sixty times a second
    )
    try:
        page = Watched(context.new_page(), server)
        yield page
        assert page.wrong == [], page.wrong
    finally:
        context.close()
