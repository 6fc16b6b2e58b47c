"""The playbook that the tests of the language server edit. It has characters of one, two and three bytes, and of two UTF-16 units."""

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
