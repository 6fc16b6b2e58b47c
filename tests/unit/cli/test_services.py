"""Services declared by a playbook file live exactly as long as the run."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from noetl_cli.inputs.services import ServiceError, services_for

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'{"ok": true}')
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def playbook(folder: Path, services: str) -> Path:
    (folder / "serve.py").write_text(SERVER)
    path = folder / "playbook.yaml"
    path.write_text(f"apiVersion: noetl.io/v2\nx-services: {services}\n")
    return path


def entry(**changes: object) -> str:
    return json.dumps(
        [{"name": "api", "command": "python serve.py {port}", "health": "/", "bind": "workload.deep.url"} | changes]
    )


def test_a_service_runs_while_the_run_does_and_its_address_is_bound(tmp_path: Path) -> None:
    with services_for(playbook(tmp_path, entry())) as overrides:
        address = overrides["deep"]["url"]
        with urllib.request.urlopen(address, timeout=5) as answer:
            assert answer.status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


def test_a_service_is_stopped_when_the_run_raises(tmp_path: Path) -> None:
    address = ""
    with pytest.raises(KeyboardInterrupt), services_for(playbook(tmp_path, entry())) as overrides:
        address = overrides["deep"]["url"]
        raise KeyboardInterrupt
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


def test_an_address_the_caller_gave_starts_nothing(tmp_path: Path) -> None:
    with services_for(playbook(tmp_path, entry(command="false")), {"deep": {"url": "http://elsewhere"}}) as overrides:
        assert overrides == {}


def test_a_file_without_services_starts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("not: [even, valid")
    with services_for(path) as overrides:
        assert overrides == {}


def test_the_error_of_a_service_that_dies_includes_its_output(tmp_path: Path) -> None:
    command = f"{sys.executable} -c \"import sys; sys.exit('no such table')\""
    with (
        pytest.raises(ServiceError, match=r"service api ended at once with exit code 1: no such table"),
        services_for(playbook(tmp_path, entry(command=command))),
    ):
        pass


@pytest.mark.parametrize(
    ("services", "says"),
    [
        ("{}", "must be a list"),
        ("[{name: x}]", "needs the text fields"),
        (entry(bind="ctx.url"), "bind must be workload"),
        (entry(command="/no/such/program"), "cannot run /no/such/program"),
    ],
)
def test_a_wrong_declaration_says_so(tmp_path: Path, services: str, says: str) -> None:
    with pytest.raises(ServiceError, match=says), services_for(playbook(tmp_path, services)):
        pass
