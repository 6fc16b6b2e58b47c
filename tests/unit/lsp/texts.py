"""The playbook that the tests of the language server edit, with characters of one, two and three bytes, and of two UTF-16 units;
and texts that no author writes."""

ORDERS = """\
# 📦 注文
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: orders, path: shop/orders, description: "📦 注文 of a day" }

keychain:
  - name: shop_api
    kind: static
    scope: global

executor:
  spec:
    entry_step: fetch
    result: { total: "{{ steps.count.result.total }}", pages: "{{ ctx.pages }}" }

workload:
  region: eu # 📦
  limits: { pages: 3, rows: 100 }
  days: [{ date: "2026-01-01", open: true }]

workbook:
  notify: { kind: http, method: POST, url: "https://example.org/{{ workload.region }}" }

workflow:
  - step: fetch
    desc: 取得 📦📦
    loop: { in: "{{ workload.days }}", iterator: day }
    tool:
      - name: page
        kind: http
        url: "https://api.example.org/📦/{{ iter.day.date }}/{{ workload.region }}"
        params: { size: "{{ workload.limits.rows }}" }
        auth: shop_api
        spec:
          policy:
            rules:
              - when: "{{ outcome.status == 'error' }}"
                then: { do: retry, attempts: 3 }
              - else:
                  then: { do: continue, set_ctx: { pages: "{{ outcome.result.data }}" }, set_iter: { seen: 1 } }
      - name: keep
        kind: noop
        result: "{{ page.data }}"
        spec:
          policy:
            rules:
              - when: "{{ iter.seen > 3 }}"
                then: { do: jump, to: page }
              - else: { then: { do: continue } }
    next:
      arcs:
        - step: count
          args: { rows: "{{ event.result }}" }

  - step: count
    tool:
      kind: python
      args: { rows: "{{ args.rows }}", region: "{{ workload.region }}", open: "{{ workload.days | map(attribute='open') | list }}" }
      libs: { st: statistics }
      code: |
        # 📦 数
        total = len(rows) if region else st.mean(open)
        result = {"total": total}
    next:
      arcs:
        - { step: done, when: "{{ count.total > 0 and steps['fetch'].status == 'ok' }}" }

  - step: done
    tool: { kind: workbook, task: notify }
"""

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: a, path: t/a }\nworkflow:\n"
HOSTILE = {
    "nothing": "",
    "white space": " \t\r\n\r \n",
    "binary": "kind: Playbook\n" + "".join(map(chr, range(256))) * 20,
    "separators of lines": "kind: Playbook\nworkload: { a: 'x\u2028y\u0085z\x0b' }\nworkflow:\n  - step: a\u2029b\n",
    "half of a pair": "kind: Playbook\nworkload: { a: '\ud83d' }\n",
    "byte order mark": "\ufeffkind: Playbook\n",
    "deep nesting": HEAD + "  - step: a\n    tool: " + "{ a: " * 3000,
    "deep lists": HEAD + "  - step: a\n    tool: " + "[" * 5000,
    "deep indentation": "kind: Playbook\n" + "".join(f"{' ' * n}a:\n" for n in range(400)),
    "deep template": HEAD + "  - step: a\n    tool: { kind: noop, result: \"{{ " + "(" * 5000 + " }}\" }\n",
    "a bomb of aliases": "kind: Playbook\nworkload:\n  a: &a [x]\n" + "".join(f"  {c}: &{c} [*{chr(ord(c) - 1)}, *{chr(ord(c) - 1)}]\n" for c in "bcdefghijklmnopqrstuvwxyz"),
    "an alias in itself": "kind: Playbook\nworkload: &a { b: *a }\n",
    "a long line": "kind: Playbook\nworkload: { a: '" + "x" * 300_000 + "' }\n",
    "a long template": HEAD + "  - step: a\n    tool: { kind: noop, result: \"{{ " + "a.b | map('c') + " * 5000,
    "a large step": HEAD + "  - step: a\n    tool: { kind: noop, result: [" + "1, " * 300_000 + "] }\n",
    "a text over the limit": "kind: Playbook\n" + "# x\n" * 1_400_000,
    "braces": '{"apiVersion": "noetl.io/v2", "kind": "Playbook", "workflow": [{"step": "a", "tool": {"kind": "noop"}}]}',
    "two documents": ORDERS + "---\n" + ORDERS,
    "a tab": ORDERS.replace("    tool:", "\ttool:"),
    "quotes that stay open": ORDERS.replace('"{{ page.data }}"', '"{{ page.data }}'),
    "keys that are no text": HEAD + "  - ? [a, b]\n    : c\n    step: a\n    1: 2\n    null: 3\n",
    "steps that are no mappings": HEAD + "  - a\n  - [b]\n  -\n  - step: [c]\n    tool: 1\n    next: { arcs: [1, { step: [] }] }\n",
    "line ends of Windows": ORDERS.replace("\n", "\r\n"),
}  # fmt: skip
