"""Every page of the console: its address in a store that has something on each, and the element that shows it is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

from noetl_console.answering import Asked
from noetl_core.api.app import Api
from noetl_core.control.admit import register
from noetl_core.control.callbacks import callback_waits, token_for
from noetl_core.control.triggers.operate import fire
from noetl_core.service.api_service import Service
from tests.console import charts
from tests.console.answers import asked
from tests.console.failures import CHILD, FAILURES, Refuses
from tests.console.sample_store import APPROVE, HEAD, NIGHTLY, WAITS, Stored, stored
from tests.servers import Handler, serving

BERLIN = NIGHTLY.replace("demo/nightly", "demo/berlin").replace('"0 2 * * *"', '"0 2 * * *", timezone: Europe/Berlin')
COLOURS = (
    HEAD
    + """metadata: { name: colours, path: demo/colours }
workflow:
  - step: start
    tool: { kind: python, code: 'print("\\x1b[1;31mred <b>\\x1b[0m plain\\x1b[2J \\x1b[38;5;2mgreen\\x1b[m"); print("the \\x1b[4mend\\x1b[24m")' }
"""
)
LIMITED = WAITS.replace("demo/waits }", "demo/limited }\nexecutor: { spec: { policy: { concurrency: { key: door, max: 1 } } } }")
SIMPLE = {
    "executions": "tbody tr",
    "executions/{items}": ".overview .failure",
    "executions/{items}/graph?step=items": ".inspector .heat",
    "executions/{approve}": ".waits",
    "executions/{hostile}/graph?step=fails": ".inspector .failure",
    "executions/{shop}/timeline": ".lane",
    "executions/{items}/steps": "tbody tr",
    "executions/{items}/iterations?step=items&i=617": ".heat",
    "executions/{shop}/events": ".virtual .line",
    "executions/{shop}/logs": ".log article",
    "executions/{shop}/ctx": ".json",
    "executions/{shop}/cost": "tbody tr",
    "executions/{items}/decisions": ".virtual .line",
    "compare?a={shop}&b={small}": ".apart",
    "compare?a={shop}&version=2": ".apart",
    "inbox": "li.card",
    "triggers": "tbody tr",
    "limits": ".card",
    "playbooks": "tbody tr",
    "playbooks/demo%2Fshop": ".graph canvas[role=img]",
}
"""Pages that the executions of `sample_store` are enough for, and what must be on each."""
FURTHER = {
    "executions?path=demo/none": ".empty",
    "executions?order=longest": "tbody tr",
    "executions/{shop}": ".overview .pair",
    "executions/{shop}/graph": "canvas[data-drawn]",
    "executions/{shop}/events?step=bulk": ".inspector",
    "executions/{shop}/iterations": ".heat",
    "executions/{waits}/iterations": ".empty",
    "executions/{items}/logs": ".empty h2",
    "executions/{colours}/logs": ".log article",
    "executions/{colours}/decisions": ".virtual .line",
    "executions/{fans}/graph": "canvas[data-drawn]",
    "executions/{busy}/timeline": ".gantt .line",
    "executions/{late}": ".waits",
    "executions/17": ".failure",
    **{f"executions/{{{failure.name}}}": ".overview > *" for failure in FAILURES},
    "compare": ".empty",
    "inbox?path=demo/none": ".empty",
    "triggers?open=demo/berlin/schedule": ".strip",
    "limits?key=door": "[aria-label=Who]",
    "playbooks/demo%2Fnightly?tests=1": "dialog p",
    "playbooks/demo%2Fshop?start=1": "dialog .forecast",
    "playbooks/new?draft=1": ".graph canvas[role=img]",
    "nothing": "h1",
}
"""Pages that need the executions of `furnished`, too."""
PAGES = SIMPLE | FURTHER


def ids_of(store: Stored) -> dict[str, str]:
    """Return the executions of `sample_store` by the names that addresses have."""
    return {name: getattr(store, name) for name in ("shop", "small", "items", "approve", "waits", "hostile")}


@contextmanager
def furnished(folder: Path) -> Iterator[tuple[Stored, dict[str, str]]]:
    """Yield a store that has something on each page, and its executions by the names that addresses have."""
    with stored(folder) as made, serving(ThreadingHTTPServer(("127.0.0.1", 0), Refuses)) as server:
        control, ids = made.wiring.control, ids_of(made)
        for source in (BERLIN, CHILD):
            register(control, source)
        late = fire(control, "demo/berlin", "schedule", at="2026-01-05T01:00:00Z")
        made.wiring.run(late["execution_id"], timeout_s=20)
        for failure in FAILURES:
            ids[failure.name] = made.start(failure.source.replace("{port}", str(server.server_port)))
            made.wiring.run(ids[failure.name], timeout_s=20)
        ids |= {"busy": charts.busy(made.wiring), "fans": charts.fanned(made.wiring), "colours": made.start(COLOURS)}
        made.start(LIMITED)
        ids["late"] = made.start(LIMITED)
        decided(made, True, "demo/approve")
        yield made, ids


def decided(store: Stored, approved: bool, path: str = "demo/decide") -> str:
    """Answer the question of an execution of its own, and return its id when it has ended."""
    execution = store.start(APPROVE.replace("demo/approve", path))
    (wait,) = (w for w in asked(store, "callbacks", f"path={path}")["callbacks"] if w["execution_id"] == execution)
    body = json.dumps({"data": {"approved": approved}}).encode()
    place = f"/api/executions/{execution}/callbacks/{wait['wait_id']}"
    store.server.api.answer(Asked("POST", place, "", {"content-type": "application/json"}, body))
    assert store.wiring.run(execution, timeout_s=20)
    return execution


class Served(ThreadingHTTPServer):
    """The API of a store, without a session, below the stage of a gateway."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.service = Service(lambda: stored.wiring.control, lambda: b"key")

    def link(self, stored: Stored, execution: str) -> str:
        state = stored.wiring.control.load(execution)
        ((run, wait),) = callback_waits(state)
        return f"http://127.0.0.1:{self.server_port}/v1/api/callbacks/{token_for(stored.wiring.control, state, run, wait)}"


class _Answers(Handler):
    server: Served

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        event = {"httpMethod": self.command, "path": self.path.removeprefix("/v1"), "headers": dict(self.headers), "body": body}
        answer = Api(self.server.service).resolve(event, None)
        headers = {name.replace("-", "_"): values[0] for name, values in answer["multiValueHeaders"].items()}
        self.say(answer["statusCode"], answer["body"].encode(), **headers)

    do_POST = do_GET
