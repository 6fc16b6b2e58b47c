"""A second `noetl up`: the stack keeps what the first one was given and the second does not name."""

from __future__ import annotations

import os
from http.server import HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from noetl_infra import stack, up
from tests.servers import Healthy, serving, url_of


def test_options_of_an_earlier_up_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed: list[dict[str, Any]] = []

    def deploy(_endpoint: str, **options: Any) -> SimpleNamespace:
        deployed.append(options)
        return SimpleNamespace(api_url="http://api", outputs={})

    monkeypatch.setattr(up, "deploy", deploy)
    packages = tmp_path / "requirements.txt"
    packages.write_text("")
    with serving(HTTPServer(("127.0.0.1", 0), Healthy)) as emulator:
        stack.remember(tmp_path, stack.Stack(url_of(emulator), os.getpid()))
        up.up(tmp_path, parameters={"ToolBuckets": "reports", "OnFailure": "ops/alert"}, tools=["mine"])
        again = up.up(tmp_path, parameters={"OnFailure": "ops/mail"}, packages=[str(packages)])
    assert deployed[1]["parameters"] == {"ToolBuckets": "reports", "OnFailure": "ops/mail"}
    assert deployed[1]["tools"] == ["mine"] and deployed[1]["packages"] == [str(packages)]
    assert (again.parameters, again.tools, again.packages) == (deployed[1]["parameters"], ["mine"], [str(packages)])
    assert stack.current(tmp_path) == again
