"""The debug map of `choose`, `while`, `until`: labels, diagnostics, events and what the command line shows speak as the author does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noetl_cli.display.output import event_line
from noetl_cli.display.progress import Progress
from noetl_core.control.admit import StartRequest
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.observe.timeline import Timeline
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.running import events_of
from tests.unit.dsl.broken_playbooks import HEAD

TEXT = (
    HEAD
    + """workflow:
  - step: start
    tool:
      - { name: init, kind: noop, set_iter: { n: 0 } }
      - choose:
          - when: "{{ iter.n > 9 }}"
            then: [{ name: a, kind: noop }]
          - else:
              - while: "{{ iter.n < 1 }}"
                do: [{ name: up, kind: noop, set_iter: { n: "{{ iter.n + 1 }}" } }]
      - name: again
        until: "{{ iter.n > 0 }}"
        do: [{ kind: noop }]
"""
)


def test_every_generated_task_names_its_source_form_and_line() -> None:
    tasks = parse_playbook(TEXT).steps[0].tasks
    assert [(t.name, t.called) for t in tasks] == [
        ("init", "task init"),
        ("choose_1", "choose[1] (line 8)"),
        ("a", "task a"),
        ("choose_1_0_end", "end of entry 0 of choose[1] (line 9)"),
        ("choose_1_else_while_0", "while[0] in else of choose[1] (line 12)"),
        ("up", "task up"),
        ("choose_1_else_while_0_again", "next round of while[0] in else of choose[1] (line 12)"),
        ("choose_1_else_while_0_end", "end of while[0] in else of choose[1] (line 12)"),
        ("choose_1_end", "end of choose[1] (line 8)"),
        ("again", 'until "again" (line 14)'),
        ("again_do_task_0", "task again_do_task_0"),
        ("again_check", 'condition of until "again" (line 14)'),
        ("again_end", 'end of until "again" (line 14)'),
    ]


def test_diagnostics_inside_name_the_form_and_the_place_of_the_expression() -> None:
    _, found = check(TEXT.replace("{{ iter.n > 9 }}", "plain"))
    assert [str(d) for d in found if d.severity == "error"] == [
        '<string>:9:19 E303 when in entry 0 of choose[1] is plain text, not an expression (write "{{ plain }}")'
    ]
    _, found = check(TEXT.replace("{{ iter.n < 1 }}", "{{ iter.n << 1 }}"))
    assert [(d.code, d.line, d.col) for d in found if d.severity == "error"] == [("E301", 12, 36)]


def history(folder: Path, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    local = LocalWiring(folder / "runs.db")
    try:
        started = local.start(StartRequest(playbook=text))
        local.run(started.execution_id, timeout_s=30)
        summary = executions.summary(local.control, started.execution_id)
        return summary, events_of(local.control, started.execution_id)[0]
    finally:
        local.close()


def test_events_of_made_tasks_carry_the_authors_words(tmp_path: Path) -> None:
    _, events = history(tmp_path, TEXT)
    tasks = [e for e in events if e["name"] == "TaskProcessed"]
    authored = {e["task"]: e["data"].get("authored") for e in tasks}
    assert authored["choose_1"] == {"label": "choose[1]", "line": 8}
    assert authored["choose_1_else_while_0_again"] == {"label": "next round of while[0] in else of choose[1]", "line": 12}
    assert authored["init"] is None
    begun = next(e for e in events if e["name"] == "TaskStarted" and e["task"] == "choose_1")
    assert begun["data"]["authored"] == {"label": "choose[1]", "line": 8}
    line = event_line(next(e for e in tasks if e["task"] == "choose_1"))
    assert " start choose_1 (choose[1], line 8) " in line


def test_progress_and_timeline_show_the_authors_words(tmp_path: Path) -> None:
    _, events = history(tmp_path, TEXT)
    line = Timeline()
    line.observe(events)
    assert "while[0] in else of choose[1]" in str(line.as_dict(0))
    progress = Progress()
    progress.observe(e for e in events if e.get("task") != "again_end")
    assert progress.steps["start"].task == 'condition of until "again"'


def test_an_error_of_a_condition_names_the_form_and_its_line(tmp_path: Path) -> None:
    summary, _ = history(tmp_path, TEXT.replace("iter.n > 9", "iter.n.x.upper()"))
    assert summary["status"] == "failed"
    assert summary["error"]["message"].startswith("policy of choose[1] (line 8): {{ iter.n.x.upper() }}: ")
