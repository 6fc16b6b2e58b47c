"""Ten executions that failed, each for another reason: what the first screen of an execution must explain."""

from __future__ import annotations

from dataclasses import dataclass

from tests.servers import Handler

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
CHILD = (
    HEAD
    + """metadata: { name: price, path: shop/price }
workload: { sku: A-1 }
workflow:
  - step: convert
    tool:
      kind: python
      args: { sku: "{{ workload.sku }}" }
      code: |
        rates = {"A": 1.1, "B": 0.9}
        series = sku.split("-")[0]
        return rates[series]
"""
)
"""The playbook that one of them calls."""


@dataclass(frozen=True)
class Failure:
    name: str
    source: str
    cause: str
    """A part of the sentence with which the first screen must begin."""
    shown: tuple[str, ...] = ()
    """Other texts of the first screen: the lines of the playbook, and the values that caused it."""


def _playbook(name: str, rest: str) -> str:
    return f"{HEAD}metadata: {{ name: {name}, path: shop/{name} }}\n{rest}"


FAILURES = (
    Failure(
        "traceback",
        _playbook(
            "totals",
            """workload: { orders: [{ id: 1, price: 10 }, { id: 2, price: null }] }
workflow:
  - step: load
    tool: { kind: noop, result: "{{ workload.orders }}" }
    next: { arcs: [{ step: total }] }
  - step: total
    tool:
      kind: python
      args: { orders: "{{ steps.load.result }}" }
      code: |
        def net(order):
            return order["price"] / 1.19

        return sum(net(order) for order in orders)
    next: { arcs: [{ step: report }] }
  - step: report
    tool: { kind: noop, result: "{{ steps.total.result }}" }
""",
        ),
        "order['price'] is None",
        ('line 15 return order["price"] / 1.19', "price: null"),
    ),
    Failure(
        "http",
        _playbook(
            "rates",
            """workload: { api: "http://127.0.0.1:{port}" }
workflow:
  - step: fetch
    tool:
      kind: http
      url: "{{ workload.api }}/unavailable"
      spec:
        policy:
          rules:
            - { when: "{{ outcome.status == 'error' and outcome.error.retryable }}", then: { do: retry, attempts: 3, delay: 0.01 } }
            - { else: { then: { do: fail } } }
    next: { arcs: [{ step: store }] }
  - step: store
    tool: { kind: noop }
""",
        ),
        "/unavailable: HTTP 503: until 18:00",
        ('url: "{{ workload.api }}/unavailable"', "until 18:00"),
    ),
    Failure(
        "passed",
        _playbook(
            "members",
            """workload: { api: "http://127.0.0.1:{port}" }
workflow:
  - step: fetch
    tool:
      kind: http
      url: "{{ workload.api }}/secret"
      spec: { policy: { rules: [{ when: "{{ outcome.http.status == 429 }}", then: { do: retry, attempts: 3 } }] } }
    next: { arcs: [{ step: count }] }
  - step: count
    tool: { kind: noop, result: "{{ steps.fetch.result.data | default([]) | length }}" }
""",
        ),
        "/secret: HTTP 401",
        (
            "its policy has no rule for this, only for outcome.http.status == 429",
            "HTTP 401: token expired",
            "outcome.http.status == 429",
        ),
    ),
    Failure(
        "iteration",
        _playbook(
            "prices",
            """workload: { count: 1000 }
workflow:
  - step: convert
    loop: { in: "{{ range(workload.count) | list }}", iterator: item }
    tool: { kind: python, args: { item: "{{ iter.item }}" }, code: "return 1000 / (item - 617)" }
    next: { arcs: [{ step: store }] }
  - step: store
    tool: { kind: noop }
""",
        ),
        "division by zero (item - 617 is 0)",
        ("line 8 return 1000 / (item - 617)", "item 617, iteration 617"),
    ),
    Failure(
        "child",
        _playbook(
            "catalogue",
            """workflow:
  - step: price
    tool: { kind: playbook, path: shop/price, args: { sku: "C-7" } }
    next: { arcs: [{ step: store }] }
  - step: store
    tool: { kind: noop }
""",
        ),
        "KeyError: 'C' (rates has: 'A', 'B')",
        ("line 13 return rates[series]", 'input {"sku": "C-7"}'),
    ),
    Failure(
        "undefined",
        _playbook(
            "links",
            """workload: { order: { id: 7 } }
executor: { spec: { strict: true } }
workflow:
  - step: fetch
    tool: { kind: noop, result: "/orders/{{ workload.order.number }}/lines" }
""",
        ),
        "workload.order.number is undefined; workload.order has: id",
        ("line 8 tool: { kind: noop, result:",),
    ),
    Failure(
        "timeout",
        _playbook(
            "slow",
            """workflow:
  - step: compute
    tool: { kind: python, code: "import time\\ntime.sleep(30)", spec: { timeout: 0.3 } }
    next: { arcs: [{ step: store }] }
  - step: store
    tool: { kind: noop }
""",
        ),
        "stopped at its timeout of 0.3 s in: time.sleep(30)",
        ("line 6 time.sleep(30)",),
    ),
    Failure(
        "credential",
        _playbook(
            "warehouse",
            """workflow:
  - step: load
    tool: { kind: postgres, auth: warehouse_prod, query: "SELECT count(*) FROM orders" }
""",
        ),
        "there is no credential 'warehouse_prod'",
        ("line 6 tool: { kind: postgres, auth: warehouse_prod",),
    ),
    Failure(
        "sql",
        _playbook(
            "sums",
            """workflow:
  - step: orders
    tool: { kind: noop, result: [{ id: 1, amount: 5 }, { id: 2, amount: 7 }] }
    next: { arcs: [{ step: sum }] }
  - step: sum
    tool: { kind: duckdb, sources: { orders: "{{ steps.orders.result }}" }, command: "SELECT sum(amuont) AS total FROM orders" }
""",
        ),
        'Referenced column "amuont" not found',
        ('Candidate bindings: "amount"', "SELECT sum(amuont)"),
    ),
    Failure(
        "nowhere",
        _playbook(
            "routes",
            """workload: { region: APAC }
workflow:
  - step: choose
    tool: { kind: noop, result: "{{ workload.region }}" }
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: europe, when: "{{ event.result == 'EMEA' }}" }
        - { step: america, when: "{{ event.result == 'AMER' }}" }
  - step: europe
    tool: { kind: noop }
  - step: america
    tool: { kind: noop }
""",
        ),
        'no condition of its arcs fits event.result "APAC"',
        ("event.result == 'EMEA' is false", "event.result == 'AMER' is false"),
    ),
)


class Refuses(Handler):
    """`/secret` wants another token; everything else is under maintenance. A playbook of `FAILURES` calls it at `{port}`."""

    def do_GET(self) -> None:
        status, body = (401, b'{"error": "token expired"}') if self.path == "/secret" else (503, b'{"error": "until 18:00"}')
        self.say(status, body, Content_Type="application/json")
