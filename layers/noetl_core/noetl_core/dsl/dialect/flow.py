"""The root, the executor, steps, loops and routers."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.dialect.assertions import Check, expecting, rewrite_assert
from noetl_core.dsl.dialect.conditions import Subject, all_of, any_of, braced, expression_of, negated
from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.dialect.outputs import rewrite_outputs
from noetl_core.dsl.dialect.parameters import escaped
from noetl_core.dsl.dialect.roots import TIMES, rewrite_defaults, rewrite_root, without_results
from noetl_core.dsl.dialect.spellings import SELECT, select_below_output
from noetl_core.dsl.dialect.tasks import (
    TasksOf,
    last_tasks,
    plain_seconds,
    rewrite_pipeline,
    rewrite_task,
    subject_of,
    without_slash,
)
from noetl_core.dsl.dialect.variants import bound_names
from noetl_core.dsl.dialect.writes import readers_of, rewrite_set
from noetl_core.dsl.fields.policies import SUGAR
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.load import Node

NOTHING: Final = (
    *("end", "stop", "complete", "finish", "continue", "ignore", "none", "skip", "drop", "warn", "log", "terminate", "quiet"),
)
"""Words for the default behaviour when no arc matches."""
FAILURE: Final = ("error", "fail", "failure", "raise", "abort")
WINDOW_SPELLINGS: Final = dict.fromkeys(("max_concurrency", "concurrency", "max_parallel"), "max_in_flight")
LOOP_SPELLINGS: Final = {"collection": "in", "items": "in", "element": "iterator", "item": "iterator", **WINDOW_SPELLINGS}
_FAILS: Final = "no_next"
_LIMIT: Final = re.compile(r"\{\{[^{}]*\b__frame_max_rows\b[^{}]*\}\}")
_OF_FRAMES: Final = ("max_seconds", "max_bytes", "heartbeat_seconds", "row_concurrency", "process")
"""Keys of a frame other than its rows and its lease."""


def rewrite_playbook(e: Edits, root: Node) -> None:
    e.without_empty(root, ("workload", "keychain", "executor", "workbook"))
    about = root.get("metadata")
    if about is not None and about.get("path") is not None:
        without_slash(e, about, "path")
    rewrite_root(e, root)
    workflow = root.get("workflow")
    if workflow is None or not isinstance(workflow.value, list):
        return
    workflow = e.own(root, "workflow")
    steps = [e.own(workflow, n) for n in range(len(workflow.value))]
    steps = [step for step in steps if isinstance(step.value, dict)]
    for step in steps if SELECT in e.r.loaded.text else ():
        _selections(e, step)
    rewrite_outputs(e, root, steps)
    readers, bound = readers_of(e.r, root, steps), frozenset(bound_names(root))
    looped = {str(s.value["step"].value): s.get("loop") is not None for s in steps if "step" in s.value}
    book: dict[str, list[Check]] = {}
    workload = root.get("workload")
    inputs = workload.value if workload is not None and isinstance(workload.value, dict) else {}
    kept = frozenset({*inputs, *readers.writers})
    _workbook(e, root, TasksOf(None, readers, bound, root=root, steps=looped, kept=kept, book=book))
    executor = _executor(e, root)
    policy = _default(executor)
    every = _every_no_match_fails(e, executor)
    failing = False
    for step in steps:
        name_node = step.get("step")
        name = str(name_node.value) if name_node is not None else ""
        own = _default(step)
        policy_of = own if own is not None else policy
        tasks = TasksOf(name, readers, bound, step.get("loop") is not None, policy_of, root, looped, kept, book)
        _step(e, step, tasks)
        failing = _router(e, step, tasks, every=every) or failing
    if failing:
        e.insert(workflow, len(workflow.value), _failing_step(steps), workflow)


def _selections(e: Edits, step: Node) -> None:
    """Move `output_select` that stands beside the keys of a step or of its tasks below `output`."""
    select_below_output(e, step)
    tool = step.get("tool")
    if tool is None:
        return
    tool = e.own(step, "tool")
    for holder in [e.own(tool, n) for n in range(len(tool.value))] if isinstance(tool.value, list) else [tool]:
        if isinstance(holder.value, dict) and "kind" in holder.value:
            select_below_output(e, holder)


def _default(holder: Node | None) -> Node | None:
    """Return the policy that a step or the executor gives to tasks without one."""
    for key in ("spec", "policy", "task"):
        holder = holder.get(key) if holder is not None else None
    return holder


def _workbook(e: Edits, root: Node, tasks: TasksOf) -> None:
    book = root.get("workbook")
    if book is None or book.value is None:
        return
    book = e.own(root, "workbook")
    tasks_node = book.get("tasks")
    if tasks_node is not None and tasks_node.get("kind") is None and isinstance(tasks_node.value, dict | list):
        book = e.own(book, "tasks")
    keys = list(book.value) if isinstance(book.value, dict) else range(len(book.value)) if isinstance(book.value, list) else ()
    for key in keys:
        _workbook_entry(e, e.own(book, key), key, tasks)


def _workbook_entry(e: Edits, entry: Node, key: str | int, tasks: TasksOf) -> None:
    """Rewrite one entry. A task before each task that runs it checks its expectations."""
    if not isinstance(entry.value, dict):
        return
    if isinstance(key, int) and "name" not in entry.value and "task" in entry.value:
        e.move(entry, "task", entry, "name")
    name_node = entry.get("name")
    name = key if isinstance(key, str) else str(name_node.value) if name_node is not None else ""
    tool = e.own(entry, "tool") if entry.get("tool") is not None and entry.get("kind") is None else entry
    if tool.get("kind") is None or not isinstance(tool.value, dict):
        return
    if tool is not entry and "assert" in entry.value and "assert" not in tool.value:
        e.move(entry, "assert", tool)
    before = rewrite_task(e, tool, name, tasks)
    if before:
        tasks.book[name] = before


# --- executor -----------------------------------------------------------------------------------------------------------


def _executor(e: Edits, root: Node) -> Node | None:
    executor = root.get("executor")
    if executor is None or not isinstance(executor.value, dict):
        return None
    executor = e.own(root, "executor")
    e.without_empty(executor, ("spec",))
    rewrite_defaults(e, executor)
    return executor


def _every_no_match_fails(e: Edits, executor: Node | None) -> bool:
    """Move `no_next_is_error` from the executor's options to the routers."""
    spec = executor.get("spec") if executor is not None else None
    flag = spec.get("no_next_is_error") if spec is not None else None
    if executor is None or flag is None:
        return False
    if not isinstance(flag.value, bool):
        e.r.report("E112", flag, f"no_next_is_error must be true or false, not {e.r.word(flag)}")
    if flag.value is True:
        e.remove(e.own(executor, "spec"), "no_next_is_error")
    return flag.value is True


# --- steps --------------------------------------------------------------------------------------------------------------


def _step(e: Edits, step: Node, tasks: TasksOf) -> None:
    e.without_empty(step, ("loop", "next", "args", "input", "set", "set_ctx", "spec", "assert"))
    without_results(e, step, f'step "{tasks.step}"')
    _loop(e, step)
    _time(e, step)
    _listed(e, step)
    one = list(last_tasks(step))
    tool = step.get("tool")
    if "retry" in step.value and one and tool is not None and one[0] is tool and "retry" not in one[0].value:
        e.move(step, "retry", e.own(step, "tool"))
    _left_over(e, step, tasks, one)
    if tool is not None:
        before = []
        rewrite_pipeline(e, step, "tool", tasks)
        one = list(last_tasks(step))
        if "assert" in step.value and one:
            what = f'step "{tasks.step}"'
            before = rewrite_assert(e, step, one[0], subject_of(one[0], f"{tasks.step}_task", tasks), what)
        if before:
            _expect(e, step, tasks, before)
    if step.get("compensate") is not None:
        undo = step.value["compensate"]
        if undo.get("tool") is not None:
            rewrite_pipeline(e, e.own(step, "compensate"), "tool", tasks)
        else:
            rewrite_pipeline(e, step, "compensate", tasks)
    rewrite_set(e, step, tasks.readers, None, looped=False)


def _listed(e: Edits, step: Node) -> None:
    """Write tasks that are keyed by their names, or one form of sugar, as a list."""
    tool = step.get("tool")
    if tool is None or not isinstance(tool.value, dict) or "kind" in tool.value or not tool.value:
        return
    if set(tool.value) & SUGAR.keys():
        e.put(step, "tool", [tool], tool)
        return
    labels = {key: child for key, child in tool.value.items() if not key.startswith("x-")}
    if labels and all(isinstance(child.value, dict) and "kind" in child.value for child in labels.values()):
        e.put(step, "tool", [{key: child} for key, child in labels.items()], tool)


def _left_over(e: Edits, step: Node, tasks: TasksOf, one: list[Node]) -> None:
    """Report keys beside a step that concern one of its tasks, if it is unclear which."""
    for key, message in (
        ("retry", "does not say which of its tasks to try again"),
        ("assert", "has no task whose result it could check"),
    ):
        if key in step.value and (key == "retry" or not one):
            e.r.report("E114", (step, key), f'{key} of step "{tasks.step}" {message}', "write it in the task, beside kind")
            e.remove(step, key)


def _expect(e: Edits, step: Node, tasks: TasksOf, before: list[tuple[str, str]]) -> None:
    first = expecting(f"{tasks.step}_expects", before)
    tool = e.own(step, "tool")
    if isinstance(tool.value, list):
        e.insert(tool, 0, first, tool)
        return
    if "name" not in tool.value:
        e.put(tool, "name", f"{tasks.step}_task", tool, first=True)
    e.put(step, "tool", [first, tool], tool)


def _loop(e: Edits, step: Node) -> None:
    """Move the options of a loop that stand beside `spec` below it."""
    loop = step.get("loop")
    if loop is None or not isinstance(loop.value, dict):
        return
    loop = e.own(step, "loop")
    for key, own in LOOP_SPELLINGS.items():
        if key in loop.value and own not in loop.value:
            e.move(loop, key, loop, own)
    if loop.get("spec") is not None and isinstance(loop.value["spec"].value, dict):
        held = e.own(loop, "spec")
        for key, own in WINDOW_SPELLINGS.items():
            if key in held.value and own not in held.value:
                e.move(held, key, held, own)
    for key in ("mode", "max_in_flight"):
        spec = loop.get("spec")
        if key in loop.value and not (spec is not None and spec.get(key) is not None):
            below = e.below(loop, "spec", (loop, key))
            if below is not None:
                e.move(loop, key, below)
    _frame(e, loop)


def _frame(e: Edits, loop: Node) -> None:
    """Take out the frame of a loop over a list: only a cursor claims rows in frames. Of a cursor's, write the number of rows."""
    spec = loop.get("spec")
    if spec is None or spec.get("frame") is None:
        return
    if loop.get("cursor") is not None:
        if isinstance(spec.value["frame"].value, dict):
            _rows_of_frame(e, loop, e.own(loop, "spec"))
        return
    if loop.get("in") is None:
        return
    spec = e.own(loop, "spec")
    e.r.no_effect(spec, ("frame",), "a loop without a cursor")
    e.remove(spec, "frame")
    if not spec.value:
        e.remove(loop, "spec")


def _rows_of_frame(e: Edits, loop: Node, spec: Node) -> None:
    """Write a frame as its number of rows, and its lease as that of the cursor. Its other keys are ignored: the engine
    decides."""
    frame = e.own(spec, "frame")
    process = frame.get("process")
    if process is not None and process.value not in ("row", "rows", "item"):
        hint = "write a task for one row: process: row, which is the default"
        e.r.report("E113", process, "a task cannot receive a whole frame", hint)
    cursor = e.own(loop, "cursor")
    if "lease_seconds" in frame.value and isinstance(cursor.value, dict) and "lease_s" not in cursor.value:
        e.move(frame, "lease_seconds", cursor, "lease_s")
    claim = cursor.get("claim")
    if claim is not None and isinstance(claim.value, str) and _LIMIT.search(claim.value) and "%(" not in claim.value:
        parts = [escaped(part) for part in _LIMIT.split(claim.value)]
        e.put(cursor, "claim", "%(limit)s".join(parts), claim)
    e.r.no_effect(frame, [key for key in frame.value if key in _OF_FRAMES], "the frame of a cursor")
    for key in [key for key in frame.value if key in _OF_FRAMES]:
        e.remove(frame, key)
    if frame.value.keys() == {"max_rows"}:
        e.put(spec, "frame", frame.value["max_rows"], frame)
    elif not frame.value:
        e.remove(spec, "frame")
    else:
        known = ("max_rows", "lease_seconds", *_OF_FRAMES)
        for key in [key for key in frame.value if key not in known]:
            e.r.report("E110", (frame, key), f'unknown key "{key}" in the frame of a cursor', suggest(key, known))
        e.put(spec, "frame", 1, frame)  # nothing more is reported of it


def _time(e: Edits, step: Node) -> None:
    """Write the time of a step below its lifecycle."""
    key = next((key for key in TIMES if key in step.value), None)
    if key is None:
        return
    holder: Node | None = step
    for part in ("spec", "policy", "lifecycle"):
        holder = e.below(holder, part, (step, key)) if holder is not None else None
    if holder is not None and "timeout_s" not in holder.value:
        e.move(step, key, holder, "timeout_s")
        plain_seconds(e, holder, "timeout_s")


# --- routers ------------------------------------------------------------------------------------------------------------


def _router(e: Edits, step: Node, tasks: TasksOf, *, every: bool) -> bool:
    """Rewrite the router of a step. Returns whether it leads to the step that fails."""
    router = step.get("next")
    if router is None or not isinstance(router.value, dict):
        return False
    if not router.value:
        e.remove(step, "next")
        return False
    router = e.own(step, "next")
    e.without_empty(router, ("spec",))
    if "mode" in router.value:
        spec = e.below(router, "spec", (router, "mode"))
        if spec is not None and "mode" not in spec.value:
            e.move(router, "mode", spec)
    arcs = router.get("arcs")
    if arcs is not None and isinstance(arcs.value, list):
        arcs = e.own(router, "arcs")
        for n in range(len(arcs.value)):
            arc = e.own(arcs, n)
            if isinstance(arc.value, dict):
                rewrite_set(e, arc, tasks.readers, None, looped=False)
    fails = _no_match(e, router, tasks, every=every)
    return fails and _add_failing_arc(e, router, tasks)


def _no_match(e: Edits, router: Node, tasks: TasksOf, *, every: bool) -> bool:
    """Return whether it is an error when no arc matches."""
    spec = router.get("spec")
    on_no_match = spec.get("on_no_match") if spec is not None else None
    if spec is None or on_no_match is None:
        return every
    word = on_no_match.value
    if word in FAILURE:
        spec = e.own(router, "spec")
        e.remove(spec, "on_no_match")
        if not spec.value:
            e.remove(router, "spec")
        return True
    if isinstance(word, dict | list) or (word is not None and word not in NOTHING):
        hint = "on_no_match: fail or end; for another step, write a last arc to it, without when"
        e.r.report("E113", on_no_match, f'on_no_match of step "{tasks.step}" is neither fail nor end', hint)
    return False


def _add_failing_arc(e: Edits, router: Node, tasks: TasksOf) -> bool:
    arcs = router.get("arcs")
    if arcs is None or not isinstance(arcs.value, list) or not arcs.value:
        return False
    guards = [arc.get("when") for arc in arcs.value]
    if any(guard is None for guard in guards):
        return False
    arc: dict[str, object] = {"step": _FAILS, "args": {"step": tasks.step}}
    spec = router.get("spec")
    if spec is not None and spec.get("mode") is not None and spec.value["mode"].value == "inclusive":
        conditions = [expression_of(e.r, guard, "when", Subject("", bound=_ALL)) for guard in guards if guard is not None]
        if None in conditions:
            return False
        arc["when"] = braced(all_of("event.status == 'success'", negated(any_of(*conditions))))
    e.insert(arcs, len(arcs.value), arc, arcs)
    return True


class _Everything(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return True


_ALL: Final = _Everything()


def _failing_step(steps: list[Node]) -> dict[str, object]:
    message = "no arc of step {{ args.step }} matches"
    rule = {"else": {"then": {"do": "fail", "error": {"kind": "schema", "message": message}}}}
    return {"step": _FAILS, "tool": {"kind": "noop", "spec": {"policy": {"rules": [rule]}}}}
