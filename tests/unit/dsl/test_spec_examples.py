"""Legacy examples of the specification texts are refused and told the way out; canonical ones run in `tests/unit/spec_examples`."""

from __future__ import annotations

from noetl_core.dsl.parse import check
from tests.unit.dsl.broken_playbooks import HEAD, MIGRATE

EVAL_DIALECT = """
workflow:
  - step: fetch_transform_store
    spec: { next_mode: exclusive }
    when: "{{ true }}"
    loop:
      spec: { mode: sequential }
      in: "{{ workload.endpoints }}"
      iterator: endpoint
    tool:
      - init:
          kind: noop
          eval:
            - else:
                do: continue
                set_iter: { page: 1, has_more: true }
    next:
      - step: validate_results
        when: "{{ event.name == 'loop.done' }}"
  - { step: validate_results, tool: { kind: noop } }
"""


def test_the_eval_dialect_is_refused_at_every_legacy_form_and_names_the_command() -> None:
    playbook, found = check(HEAD + EVAL_DIALECT)
    assert playbook is None
    errors = [d for d in found if d.severity == "error"]
    assert [(d.code, d.path[-1]) for d in errors] == [("E120", "next_mode"), ("E120", "when"), ("E120", "eval"), ("E120", "next")]
    assert all(MIGRATE in d.hint for d in errors)
