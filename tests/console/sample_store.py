"""A local store with executions of every kind that the console shows."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from noetl_console.local import LocalApi
from noetl_console.server import Console
from noetl_core.control.admit import StartRequest, register
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions.executions import status_of
from tests.console.http_requests import console

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
SHOP = (
    HEAD
    + """metadata: { name: shop, path: demo/shop, description: Prices orders and ships them }
workload: { orders: [3, 5, 8], region: eu }
workflow:
  - step: start
    tool:
      kind: python
      args: { orders: "{{ workload.orders }}", region: "{{ workload.region }}" }
      code: |
        import sys
        print(f"{len(orders)} orders from {region}")
        print("prices are net", file=sys.stderr)
        result = sum(orders)
    next:
      arcs:
        - { step: bulk, when: "{{ event.result > 10 }}", args: { total: "{{ event.result }}" } }
        - { step: single }
  - step: bulk
    loop: { in: "{{ workload.orders }}", iterator: order }
    tool: { kind: noop, result: "{{ iter.order * 2 }}", set_ctx: { last: "{{ iter.order }}" } }
    next: { spec: { mode: inclusive }, arcs: [{ step: ship }, { step: invoice }] }
  - step: single
    tool: { kind: noop }
  - step: ship
    tool: { kind: noop, result: { carrier: dhl, parcels: 3 } }
    next: { arcs: [{ step: notify }] }
  - step: invoice
    tool: { kind: noop, result: { number: 17 } }
    next: { arcs: [{ step: notify }] }
  - step: notify
    spec: { join: all }
    tool: { kind: noop, result: sent }
"""
)
SHOP_OF_LATER = SHOP.replace("event.result > 10", "event.result > 100")
"""Its second version: what was much is little now."""
ITEMS = (
    HEAD
    + """metadata: { name: items, path: demo/items }
workload: { count: 3000 }
workflow:
  - step: items
    loop: { in: "{{ range(workload.count) | list }}", iterator: item, spec: { policy: { failure: { mode: best_effort } } } }
    tool: { kind: noop, result: "{{ 12 / (0 if iter.item in [617, 1618] and ctx.price is not defined else 1) }}" }
    next: { arcs: [{ step: total, when: "{{ event.loop.failed == 0 }}" }, { step: check }] }
  - step: check
    tool: { kind: python, code: "raise ValueError('some items have no price')" }
  - step: total
    tool: { kind: noop, result: "{{ steps.items.result | length }}" }
"""
)
DEV = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: dev, path: tests/dev }
workload: { n: 2 }
workflow:
  - step: first
    tool: { kind: noop, result: "{{ workload.n }}" }
    next: { arcs: [{ step: second }] }
  - step: second
    tool: { kind: noop, result: "{{ steps.first.result * 10 }}" }
"""
APPROVE = (
    HEAD
    + """metadata: { name: approve, path: demo/approve }
workload: { amount: 1200 }
workflow:
  - step: ask
    tool:
      kind: callback
      description: "Approve {{ workload.amount }} EUR?"
      schema:
        type: object
        required: [approved]
        properties: { approved: { type: boolean, title: Approved }, reason: { type: string, title: Why } }
    next: { arcs: [{ step: paid, when: "{{ event.result.approved }}" }, { step: refused }] }
  - step: paid
    tool: { kind: noop, result: paid }
  - step: refused
    tool: { kind: noop, result: refused }
"""
)
WAITS = (
    HEAD
    + """metadata: { name: waits, path: demo/waits }
workflow:
  - step: wait
    tool: { kind: callback, signal: go_on }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop, result: "{{ steps.wait.result.word }}" }
"""
)
NIGHTLY = (
    HEAD
    + """metadata: { name: nightly, path: demo/nightly }
executor: { spec: { triggers: [{ schedule: "0 2 * * *" }] } }
workflow:
  - step: report
    tool: { kind: noop, result: done }
"""
)
TESTED = """test: reports
expect: { status: completed, result: done }
"""
"""The tests of `NIGHTLY`, in a file beside its own."""
IMAGE = "<img src=x onerror=alert(1)>"
HOSTILE = (
    HEAD
    + f"""metadata: {{ name: hostile, path: demo/hostile }}
workload: {{ image: "{IMAGE}" }}
workflow:
  - step: start
    tool: {{ kind: python, args: {{ image: "{{{{ workload.image }}}}" }}, code: "print(image); print('\\u202eabc'); result = {{image: image, 'long': 'x' * 10000, 'rtl': '\\u202eabc'}}" }}
    next: {{ arcs: [{{ step: fails }}] }}
  - step: fails
    tool: {{ kind: python, args: {{ image: "{{{{ workload.image }}}}" }}, code: "raise ValueError(image + '\\u202e' + 'y' * 10000)" }}
"""
)


@dataclass(frozen=True)
class Stored:
    """A console, and the ids of executions of its store."""

    server: Console
    wiring: LocalWiring
    shop: str
    small: str
    items: str
    approve: str
    waits: str
    hostile: str

    def start(self, source: str, payload: dict[str, Any] | None = None, labels: dict[str, str] | None = None) -> str:
        """Carry out one more."""
        return carried_out(self.wiring, source, payload, labels)


def carried_out(
    wiring: LocalWiring, source: str, payload: dict[str, Any] | None = None, labels: dict[str, str] | None = None
) -> str:
    """Its id, when it has ended or waits."""
    execution_id = wiring.start(StartRequest(playbook=source, payload=payload or {}, labels=labels or {})).execution_id
    while not wiring.run(execution_id, timeout_s=0.05):
        if status_of(wiring.control.load(execution_id)) == "waiting":
            break
    return execution_id


@cache
def _made() -> tuple[Path, dict[str, str]]:
    """The folder of a store with one execution of each kind, and their ids. It is made once and copied, which takes a hundredth of it."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-stored-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    wiring = LocalWiring(str(folder / "runs.db"))
    for source in (SHOP, ITEMS, APPROVE, NIGHTLY):
        register(wiring.control, source)
    ids = {
        "small": carried_out(wiring, SHOP, {"orders": [3, 5]}, {"env": "test", "team": "orders"}),
        "hostile": carried_out(wiring, HOSTILE),
        "waits": carried_out(wiring, WAITS),
        "approve": carried_out(wiring, APPROVE),
        "items": carried_out(wiring, ITEMS),
        "shop": carried_out(wiring, SHOP),
    }
    register(wiring.control, SHOP_OF_LATER)
    wiring.close()
    (folder / "nightly.yaml").write_text(NIGHTLY)
    (folder / "nightly.test.yaml").write_text(TESTED)
    return folder, ids


@contextmanager
def stored(folder: Path) -> Iterator[Stored]:
    """A console of a new store in `folder`."""
    made, ids = _made()
    shutil.copytree(made, folder, dirs_exist_ok=True)
    store = str(folder / "runs.db")
    wiring, api = LocalWiring(store), LocalApi(store, folder)
    try:
        with console(api) as server:
            yield Stored(server, wiring, **ids)
    finally:
        api.close()
        wiring.close()
