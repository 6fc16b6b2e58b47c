"""`noetl console`, as a process."""

from __future__ import annotations

import signal
import time
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from tests.commands import ENV, Command, run


def address(command: Command) -> str:
    """Return the first line that the command prints."""
    for _ in range(600):
        if "\n" in command.stdout:
            return command.stdout.splitlines()[0]
        time.sleep(0.05)
    raise AssertionError(command.stderr)


def test_console_serves_the_local_store_at_the_printed_address(tmp_path: Path) -> None:
    with Command(
        "console", "--no-open", "--store", str(tmp_path / "runs.db"), cwd=tmp_path, env={**ENV, "NOETL_HOME": str(tmp_path)}
    ) as command:
        url = address(command)
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with browser.open(url) as answer:
            assert b"<title>NoETL</title>" in answer.read()
        with browser.open(url.partition("?")[0] + "api/health") as answer:
            assert b'"name":"local"' in answer.read()
        command.send_signal(signal.SIGINT)
        assert command.wait() == 130
        assert "ticket" not in command.stderr


def test_console_forwards_to_another_api_and_reports_an_unreachable_one(tmp_path: Path) -> None:
    with Command("console", "--no-open", "--on", "http://127.0.0.1:9", cwd=tmp_path) as command:
        url = address(command)
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        browser.open(url).close()
        try:
            browser.open(url.partition("?")[0] + "api/health")
        except urllib.error.HTTPError as refused:
            assert refused.code == 502
            assert b"http://127.0.0.1:9 does not answer" in refused.read()
        else:
            raise AssertionError("nothing answers there")


@pytest.mark.nightly
def test_uploading_to_an_unreachable_stack_is_an_error(tmp_path: Path) -> None:
    env = {**ENV, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    gone = run("console", "--upload-to", "pages", cwd=tmp_path, env={**env, "AWS_DEFAULT_REGION": "us-east-1"})
    assert (gone.returncode, "S3 does not answer" in gone.stderr) == (3, True)


def test_a_store_in_memory_and_a_port_that_is_taken_are_refused(tmp_path: Path) -> None:
    refused = run("console", "--no-open", "--store", "memory", cwd=tmp_path)
    assert (refused.returncode, "write --store FILE" in refused.stderr) == (2, True)
    with Command("console", "--no-open", "--on", "http://127.0.0.1:9", cwd=tmp_path) as command:
        port = address(command).split(":")[2].partition("/")[0]
        taken = run("console", "--no-open", "--port", port, "--on", "http://127.0.0.1:9", cwd=tmp_path)
        assert (taken.returncode, f"cannot listen on port {port}" in taken.stderr) == (2, True)
