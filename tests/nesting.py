"""Three loops inside each other - parallel, sequential, sequential - and pages by jump in the innermost: every page exactly once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.e2e.ledger import Ledger

REGIONS, SHOPS, DAYS = 4, 3, 3

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: nesting, path: tests/nesting}
workload: {url: ""}
executor: {spec: {result: "{{ steps.collect.result }}"}}
workflow:
  - step: collect
    loop:
      in: "{{ range(4) | list }}"
      iterator: region
      spec: {mode: parallel, max_in_flight: 3}
      loop:
        in: "{{ range(3) | list }}"
        iterator: shop
        spec: {mode: sequential}
        loop:
          in: "{{ range(3) | list }}"
          iterator: day
          spec: {mode: sequential}
    tool:
      - name: init
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 0, seen: 0}}}}]}}
      - name: fetch
        kind: http
        method: POST
        url: "{{ workload.url }}/"
        params: {fail_first: 1}
        json:
          region: "{{ iter.parent.parent.region }}"
          shop: "{{ iter.parent.shop }}"
          day: "{{ iter.day }}"
          page: "{{ iter.page }}"
          pages: "{{ 1 + iter.parent.parent.region + iter.day }}"
        spec:
          policy:
            rules:
              - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 0.01}}
              - {else: {then: {do: continue, set_iter: {page: "{{ iter.page + 1 }}", seen: "{{ iter.seen + 1 }}"}}}}
      - name: paginate
        kind: noop
        spec:
          policy:
            rules:
              - {when: "{{ iter.page < fetch.data.pages }}", then: {do: jump, to: fetch}}
      - name: count
        kind: noop
        result: "{{ iter.seen }}"
"""


def check(result: Any, book: Ledger) -> None:
    """Counts nested as the loops are; each page fetched by its own key, answered 503 once and then 200."""
    assert result == [[[1 + region + day for day in range(DAYS)] for _ in range(SHOPS)] for region in range(REGIONS)]
    pages = [
        (region, shop, day, page)
        for region in range(REGIONS)
        for shop in range(SHOPS)
        for day in range(DAYS)
        for page in range(1 + region + day)
    ]
    calls = book.calls()
    assert Counter((b["region"], b["shop"], b["day"], b["page"]) for _, b in calls) == dict.fromkeys(pages, 2)
    assert Counter(book.keys().values()) == {2: len(pages)}, "page 2 has a key of its own, an attempt has not"
