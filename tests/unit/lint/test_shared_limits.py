"""W515 for names in what limits executions as a whole."""

from __future__ import annotations

import pytest

from noetl_core.dsl.parse import check


def found(policy: str) -> list[tuple[str, str]]:
    text = f"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: t, path: t }}
executor: {{ spec: {{ policy: {{ {policy} }} }} }}
workload: {{ shop: paris, urgent: false }}
workflow:
  - step: a
    tool: {{ kind: noop, result: "{{{{ [workload.shop, workload.urgent] }}}}" }}
"""
    return [(d.code, d.message) for d in check(text)[1]]


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ('concurrency: { key: "k-{{ workload.shp }}", max: 1 }', "nothing binds workload.shp"),
        ('concurrency: { key: k, max: "{{ workload.mx }}" }', "nothing binds workload.mx"),
        ('priority: "{{ workload.urgnt }}"', "nothing binds workload.urgnt"),
        ('priority: "{{ wrkload.urgent }}"', 'nothing binds "wrkload" in priority of the executor'),
    ],
)
def test_a_name_that_nothing_binds_is_found(policy: str, says: str) -> None:
    assert found(policy) == [("W515", says)]


def test_names_that_are_bound_are_right() -> None:
    limit = 'concurrency: { key: "{{ workload.shop ~ trigger.kind ~ execution_id }}", max: 1 }'
    assert found(f'{limit}, priority: "{{{{ 10 if workload.urgent else 0 }}}}"') == []
