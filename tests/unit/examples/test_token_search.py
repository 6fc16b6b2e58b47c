"""The example `token_search`: from its files, by the command line, also when its process is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Command, run
from tests.examples_runner import EXAMPLES

FOLDER = EXAMPLES / "token_search"
WORDS = ["storms", "fog", "wind", "hail", "frost", "heat", "floods", "drought"]
RESULT = {"words": 8, "kept": True, "last": {"word": "drought", "summary": "3 articles: a first look at drought, and more"}}
CREDENTIALS = {
    "NOETL_CREDENTIAL_SEARCH_CLIENT": (FOLDER / "client.json").read_text(),
    "NOETL_CREDENTIAL_SEARCH_MODEL": (FOLDER / "model.json").read_text(),
}


@pytest.fixture
def service() -> Iterator[str]:
    command = [sys.executable, "server.py"]
    with subprocess.Popen(command, cwd=FOLDER, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, **CREDENTIALS, "NOETL_HOME": str(tmp_path / "home")}


def get(service: str, path: str) -> Any:
    with urllib.request.urlopen(service + path, timeout=10) as answer:
        return json.load(answer)


def check(service: str, home: Path) -> None:
    """One token for all, and one report with a line for each word; no secret in any file."""
    stats = get(service, "/stats")
    assert (stats["tokens"], stats["reports"]) == (1, 1)
    (report,) = get(service, "/reports")["reports"]
    assert [json.loads(line)["word"] for line in report.splitlines()] == WORDS
    files = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"demo-client-secret" not in files and b"demo-model-key" not in files


@pytest.mark.nightly
def test_it_gives_its_result_with_one_token(service: str, env: dict[str, str], tmp_path: Path) -> None:
    ended = run("run", str(FOLDER / "playbook.yaml"), "--set", f"api={service}", "--output", "json", cwd=tmp_path, env=env)
    out = json.loads(ended.stdout)
    assert (out["status"], out["error"], out["result"]) == ("completed", None, RESULT)
    stats = get(service, "/stats")
    assert (stats["searches"], stats["summaries"]) == (8, 8)
    check(service, tmp_path / "home")


@pytest.mark.nightly
def test_killed_in_the_middle_it_goes_on_with_the_token_it_had(service: str, env: dict[str, str], tmp_path: Path) -> None:
    arguments = ("run", str(FOLDER / "playbook.yaml"), "--set", f"api={service}", "--output", "json")
    with Command(*arguments, cwd=tmp_path, env=env) as command:
        for _ in range(1000):
            if get(service, "/stats").get("summaries", 0) >= 2:
                break
            time.sleep(0.02)
        command.send_signal(signal.SIGKILL)
        assert command.wait() == -signal.SIGKILL
    assert get(service, "/stats").get("reports", 0) == 0
    (listed,) = json.loads(run("ls", "--output", "json", cwd=tmp_path, env=env).stdout)
    ended = run("resume", listed["execution_id"], "--output", "json", cwd=tmp_path, env=env)
    out = json.loads(ended.stdout)
    assert (out["status"], out["error"], out["result"]) == ("completed", None, RESULT)
    check(service, tmp_path / "home")


def test_the_example_without_its_credential_fails_at_once_with_the_remedy(
    service: str, env: dict[str, str], tmp_path: Path
) -> None:
    del env["NOETL_CREDENTIAL_SEARCH_MODEL"]
    ended = run("run", str(FOLDER / "playbook.yaml"), "--set", f"api={service}", cwd=tmp_path, env=env)
    assert ended.returncode == 1
    assert "keychain entry \"model\": there is no credential 'search_model'" in ended.stdout + ended.stderr
    assert "noetl credentials put search_model" in ended.stdout + ended.stderr
    assert get(service, "/stats") == {}
