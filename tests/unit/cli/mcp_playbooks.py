"""Playbooks that are tools of MCP clients, and one that is not."""

from __future__ import annotations

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
ORDER = HEAD + (
    "metadata: { name: order, path: shop/order, description: Status of an order, mcp_tool: find_order }\n"
    "workload:\n  id: null\n  size: 1\n  bank: https://bank.example.org\n"
    "  x-schema: { required: [id], properties: { id: { type: string }, size: { type: integer } } }\n"
    "workflow:\n  - step: find\n    tool: { kind: noop, result: { id: '{{ workload.id }}', text: \"{{ 'ä' * workload.size }}\" } }\n"
)
FORM = "schema: { type: object, required: [ok], properties: { ok: { type: boolean } } }"
REFUND = HEAD + (
    "metadata: { name: refund, path: shop/refund, mcp_tool: refund }\nworkload: { id: A-1 }\n"
    "workflow:\n  - step: pay\n    tool: { kind: playbook, path: shop/approval, payload: { id: '{{ workload.id }}' } }\n"
)
APPROVAL = HEAD + (
    "metadata: { name: approval, path: shop/approval }\nworkload: { id: A-1 }\n"
    f"workflow:\n  - step: ask\n    tool: {{ kind: callback, description: 'Refund {{{{ workload.id }}}}?', timeout: 1d, {FORM} }}\n"
)
FAILS = HEAD + (
    "metadata: { name: fails, path: shop/fails, mcp_tool: fails }\n"
    "workflow:\n  - step: a\n    tool: { kind: python, code: \"raise ValueError('no stock')\" }\n"
)
SLOW = HEAD + (
    "metadata: { name: slow, path: shop/slow, mcp_tool: slow }\nworkload: { seconds: 1 }\n"
    "workflow:\n  - step: a\n    tool: [ { kind: wait, duration: '{{ workload.seconds }}' }, { kind: noop, result: done } ]\n"
)
OTHER = HEAD + "metadata: { name: other, path: other }\nworkflow:\n  - step: a\n    tool: { kind: noop, result: secret }\n"
