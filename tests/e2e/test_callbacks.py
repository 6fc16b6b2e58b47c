"""Waiting on the stack: a callback answered at the address its task sent out, and a secret that outlives the suspension."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from tests import commands
from tests.commands import ENV
from tests.e2e.ledger import ledger
from tests.e2e.support import Api

SECRET = "e2e-s3cret-value"
ASK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: ask, path: e2e/ask }
workflow:
  - step: start
    tool:
      - { name: login, kind: secrets, secret: e2e-callback, field: password }
      - { name: send, kind: http, method: POST, url: "{{ workload.mail }}", json: { token: "{{ callback.token }}", url: "{{ callback.url }}" } }
      - name: ask
        kind: callback
        heartbeat: 10m
        schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }
      - { name: use, kind: http, method: POST, url: "{{ workload.mail }}", json: { password: "{{ login }}" } }
      - { name: after, kind: noop, result: "{{ ask }}" }
"""


def _noetl(api: Api, *arguments: str) -> str:
    """Return the output of a command line against this stack."""
    done = commands.run(*arguments, "--on", "stack", cwd=Path.cwd(), env={**ENV, "NOETL_API_URL": api.url})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_callback_is_answered_at_its_url_and_sealed_values_are_restored(api: Api, tmp_path: Path) -> None:
    body = {"name": "e2e-callback", "type": "basic", "data": {"password": SECRET}, "paths": ["*"]}
    status, answer = api.call("POST", "/api/credentials", body)
    assert status in (200, 201), answer
    with ledger(tmp_path / "calls.jsonl") as mail:
        execution_id = api.start(ASK, {"mail": mail.url})
        api.wait(execution_id, until={"waiting"})
        (_, sent) = mail.calls()[0]
        path = urlsplit(sent["url"]).path
        where = "/api" + path.partition("/api")[2]
        assert sent["url"] == api.url + where, "the address is the API's own"
        assert api.call("GET", f"/api/executions/{execution_id}/callbacks")[1]["callbacks"][0]["token"] == sent["token"]
        assert api.call("POST", where, {"heartbeat": True})[1]["callback"] == "alive"
        assert api.call("POST", where, {"data": {"ok": "yes"}})[0] == 422
        assert api.call("POST", where[:-1], {"data": {"ok": True}})[0] == 403
        assert _noetl(api, "show", execution_id).count(sent["token"]) == 1
        assert _noetl(api, "callback", sent["url"], "--data", '{"ok": true}') == f"{execution_id} answered\n"
        ended = api.wait(execution_id)
        assert (ended["status"], ended["result"]) == ("completed", {"ok": True}), ended
        assert mail.calls()[-1][1] == {"password": SECRET}
        assert api.call("POST", where, {"data": {"ok": False}})[0] == 409
    events = json.dumps(api.call("GET", f"/api/executions/{execution_id}/events?limit=1000")[1])
    for text in (SECRET, sent["token"].rsplit(".", 1)[1]):
        assert text not in events
    assert "sealed" in events
