"""Progress is one fold of envelopes, whatever their source."""

from __future__ import annotations

from noetl_cli.display.progress import Progress
from tests.running import events_of, run_text

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: p, path: test/p }
workflow:
  - step: map
    loop: { in: "{{ range(4) | list }}", iterator: n, spec: { mode: parallel, policy: { failure: { mode: best_effort } } } }
    tool: { kind: noop, result: "{{ 1 / (iter.n - 2) }}" }
    next: { spec: { mode: inclusive }, arcs: [{ step: ok }, { step: bad }, { step: never }] }
  - step: ok
    tool:
      kind: noop
      result: "{{ 1 / 0 if _attempt < 3 else 1 }}"
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 3, delay: 0 } }] } }
  - step: bad
    tool: { kind: noop, result: "{{ 1 / 0 }}" }
  - step: never
    spec: { policy: { admit: { rules: [{ else: { allow: false } }], on_deny: skip } } }
    tool: { kind: noop }
"""


def test_every_counter() -> None:
    local, state = run_text(PLAYBOOK)
    envelopes, _ = events_of(local.control, state.execution_id)
    local.close()
    progress = Progress()
    ended = [s.name for e in envelopes for s in progress.observe([e])]
    steps = progress.steps
    assert progress.status == "failed"
    assert progress.events == len(envelopes)
    assert sorted(ended) == ["bad", "map", "never", "ok"]
    assert (steps["map"].total, steps["map"].done, steps["map"].failed, steps["map"].status) == (4, 4, 1, "ok")
    assert (steps["ok"].retries, steps["ok"].tasks, steps["ok"].status) == (2, 3, "ok")
    assert steps["bad"].status == "error"
    assert steps["never"].status == "skipped"
    assert all(not s.open and s.seconds(0) >= 0 for s in steps.values())


def test_half_a_history_is_a_running_execution() -> None:
    local, state = run_text(PLAYBOOK)
    envelopes, _ = events_of(local.control, state.execution_id)
    local.close()
    progress = Progress()
    progress.observe(envelopes[: next(i for i, e in enumerate(envelopes) if e["name"] == "LoopIterationCompleted") + 1])
    assert progress.status == "running"
    assert progress.steps["map"].status == "running"
    assert progress.steps["map"].done == 1


def test_a_step_that_runs_many_times_is_told_once() -> None:
    again = "  - step: again\n    tool: {kind: noop}\n    next: {arcs: [{step: again, when: '{{ args.n | default(3) > 1 }}', args: N}]}\n"
    again = again.replace("args: N", "args: {n: '{{ args.n | default(3) - 1 }}'}")
    local, state = run_text(PLAYBOOK.partition("  - step: map")[0] + again)
    envelopes, _ = events_of(local.control, state.execution_id)
    local.close()
    progress = Progress()
    assert [(s.name, s.runs) for s in progress.observe(envelopes)] == [("again", 3)]
