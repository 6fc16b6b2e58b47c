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


PARTS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: t, path: t }}
workload: {{ shop: paris }}
workflow:
  - step: a
    tool: {{ kind: noop, result: "{{{{ workload.shop }}}}" }}
    next: {{ arcs: [{{ step: b, args: {{ account: 7 }} }}] }}
  - step: b
    spec: {{ policy: {{ {step} }} }}
    loop: {{ in: [1], iterator: n }}
    tool: [{{ name: x, kind: noop, result: "{{{{ [iter.n, args.account] }}}}"{task} }}]
"""
RATE = ", spec: { policy: { rate: { %s } } }"


@pytest.mark.parametrize(
    ("step", "task", "says"),
    [
        ('concurrency: { key: "{{ args.acount }}", max: 1 }', "", "nothing binds args.acount"),
        ('concurrency: { key: k, max: "{{ workload.mx }}" }', "", "nothing binds workload.mx"),
        ('concurrency: { key: "{{ iter.n }}", max: 1 }', "", "iter means nothing in concurrency of a step"),
        ('task: { rate: { key: "{{ workload.shp }}", per_second: 1 } }', "", "nothing binds workload.shp"),
        ("failure: { mode: fail_fast }", RATE % 'key: "{{ iter.m }}", per_second: 1', "nothing binds iter.m"),
        ("failure: { mode: fail_fast }", RATE % 'key: k, per_second: "{{ workload.mx }}"', "nothing binds workload.mx"),
    ],
)
def test_a_name_that_nothing_binds_is_found_in_limits_of_steps_and_tasks(step: str, task: str, says: str) -> None:
    found = [(d.code, d.message) for d in check(PARTS.format(step=step, task=task))[1]]
    assert found == [("W515", says)]
