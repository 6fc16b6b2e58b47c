"""Replaces accepted spellings in template text by the canonical ones, before the model is read.

`output` becomes `outcome` in task policies, and the boundary in arcs and admission; `call.done`, `call.error` and `step.exit`
are older event names in guards; bare step names become `steps.<name>.result`; `results` and `stats` of what a loop gave become
its list and its counts. Only names that a template reads are replaced,
at their positions; names that anything else in the playbook may bind are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from noetl_core.dsl.dialect.boundaries import EVENT_NAME, boundary_places, rewrite_boundaries
from noetl_core.dsl.dialect.replacing import PART, below, of_response, path_end, replace_reads, report_two_meanings
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.references import not_kept, twice_the_result
from noetl_core.dsl.steps.tasks import RESERVED
from noetl_core.dsl.templates import KEY, scalars_below
from noetl_core.expr import FUNCTIONS, METHODS

_DATA: Final = re.compile(r"""output\s*(?:\.\s*data\b|\[\s*(?:'data'|"data")\s*\])""")
_BINDING: Final = frozenset({"args", "input", "set_ctx", "set_iter", "set", "payload"})


def rewrite_variants(r: Reader, root: Node) -> None:
    """Change the text of template scalars where it uses an accepted spelling."""
    workflow = root.get("workflow")
    steps = [s for s in workflow.value if isinstance(s.value, dict)] if workflow and isinstance(workflow.value, list) else []
    read_names = {read.path[0] for reads in r.reads.values() for read in reads}
    older_events = any("event" in text and EVENT_NAME.search(text) for text in r.reads)
    older_output = "output" in read_names
    if older_output:
        for part in _with_policies(root, steps):
            _outputs(r, part)
        for defaults in _default_policies(root, steps):
            _of_any_kind(r, defaults)
    older_output = older_output and "output" not in bound_names(root)
    response = "response" in read_names and "response" not in bound_names(root)
    if older_events or older_output or response:
        rewrite_boundaries(r, steps, events=older_events, output=older_output, response=response)
    if "loop_index" in read_names and "loop_index" not in bound_names(root):
        _indexes(r, steps)
    names = {str(s.value["step"].value) for s in steps if "step" in s.value}
    if "input" in read_names and "input" not in names:
        _arguments(r, steps, bound_names(root))
    bare = names & read_names
    bare -= RESERVED | frozenset(FUNCTIONS) | bound_names(root) if bare else set()
    tasks = {str(s.value["step"].value): list(_task_names(s.get("tool"))) for s in steps if "step" in s.value} if bare else {}
    last = _last_tasks(steps) if bare else {}
    for step in steps if bare else ():
        _own_results(r, step, bare, last)
        _bare_names(r, step, bare - set(_task_names(step.get("tool"))), tasks, last)
    executor = root.get("executor")
    if bare and executor is not None:
        _bare_names(r, executor, bare, tasks, last)
    _loop_results(r, root, steps)


# --- output -> outcome --------------------------------------------------------------------------------------------------


def _with_policies(root: Node, steps: Sequence[Node]) -> Iterator[Node]:
    """Yield the places of tasks: the tools and compensations of steps, and the workbook."""
    for step in steps:
        policy = below(step, "spec", "policy")
        places = (step.get("tool"), step.get("compensate"), policy.get("compensation") if policy is not None else None)
        yield from (place for place in places if place is not None)
    book = root.get("workbook")
    if book is not None:
        yield book


def _default_policies(root: Node, steps: Sequence[Node]) -> Iterator[Node]:
    """Yield the policies that hold for tasks of any kind."""
    for place in (root.get("executor"), *steps):
        policy = None if place is None else below(place, "spec", "policy", "task")
        if policy is not None:
            yield policy


def _of_any_kind(r: Reader, node: Node) -> None:
    for scalar in scalars_below(node):
        reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] == "output"]
        replace_reads(r, scalar, reads, partial(_outcome, _DATA_OF_ANY))


_BODY: Final = "outcome.result.data"
"""Names of a response under which some engines read `output.data` of `http`."""
_DATA_OF_ANY: Final = "(outcome.result.data if outcome.http is defined else outcome.result)"
"""The expression for `output.data` if the text does not tell the kind of the task."""


def _outputs(r: Reader, node: Node) -> None:
    """Rewrite the templates in the policy and in the writes of each task."""
    if isinstance(node.value, list):
        for child in node.value:
            _outputs(r, child)
    elif isinstance(node.value, dict):
        kind = node.get("kind")
        if kind is None or not isinstance(kind.value, str):
            for child in node.value.values():
                _outputs(r, child)
            return
        data = {"http": _BODY, "workbook": _DATA_OF_ANY}.get(kind.value, "outcome.result")
        for key in ("spec", "set_ctx", "set_iter", "set"):
            part = node.get(key)
            for scalar in scalars_below(part) if part is not None else ():
                if data == _BODY:
                    report_two_meanings(r, scalar, _BODY)
                reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] == "output"]
                replace_reads(r, scalar, reads, partial(_outcome, data))


def _with_fields(data: str) -> str:
    """Return the outcome with `data`, and with those fields of the result that the outcome lacks."""
    return f"dict(outcome.result if outcome.result is mapping else {{}}, **dict(outcome, data={data} | default(none)))"


_WHOLE: Final = {
    "outcome.result.data": _with_fields("(outcome.result or {}).data"),
    "outcome.result": _with_fields("outcome.result"),
    _DATA_OF_ANY: _with_fields(_DATA_OF_ANY),
}
"""Expressions for the whole `output`, by the expression for its `data`."""


def _outcome(data: str, text: str) -> str:
    """Replace `output` at the beginning of `text`; `data` is the meaning of `output.data`."""
    found = _DATA.match(text)
    if found:
        body = data == _BODY and of_response(_BODY, "outcome.result", "outcome.http.status", text, found.end())
        return body or data + text[found.end() :]
    rest = text[len("output") :]
    part = PART.match(text)
    return "outcome" + rest if part is not None and (part[1] or part[2]) not in METHODS else _WHOLE[data] + rest


# --- indexes ------------------------------------------------------------------------------------------------------------


def _indexes(r: Reader, steps: list[Node]) -> None:
    """Rewrite `loop_index` in the tasks of a loop."""
    for step in steps:
        tool = step.get("tool") if step.get("loop") is not None else None
        for scalar in scalars_below(tool) if tool is not None else ():
            reads = [read for read in r.reads.get(scalar.value, ()) if read.path == ("loop_index",)]
            replace_reads(r, scalar, reads, lambda text: "iter.index" + text[len("loop_index") :])


def _arguments(r: Reader, steps: list[Node], bound: set[str]) -> None:
    """Rewrite `input.x` to `args.x`, as the key `input` is `args`, where nothing else is called `input`."""
    if "input" in bound or any("input" in _task_names(step.get("tool")) for step in steps):
        return
    for scalar in (scalar for step in steps for scalar in scalars_below(step)):
        reads = [
            read for read in r.reads.get(scalar.value, ()) if read.path[0] == "input" and read.path[1:2] and read.path[1] in bound
        ]
        replace_reads(r, scalar, reads, lambda text: "args" + text[len("input") :])


# --- bare step names ----------------------------------------------------------------------------------------------------


Last = Mapping[str, tuple[str, str]]
"""Step -> name and kind of the task whose result is the step's."""


def _bare_names(r: Reader, node: Node, names: set[str], tasks: Mapping[str, Sequence[str]], last: Last) -> None:
    """Rewrite bare names of steps. `tasks` and `last`: the tasks of each step, and that whose result is the step's."""
    for scalar in scalars_below(node):
        reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] in names]
        for read in reads:
            name, part, task = (*read.path, "", "")[:3]
            if part == "results" and task != last.get(name, ("", ""))[0] and (task in tasks[name] or task == f"{name}_task"):
                not_kept(r, scalar, read, name, task)
            elif part == "result":
                twice_the_result(r, scalar, read)
        replace_reads(r, scalar, reads, partial(_step_result, last))


def _own_results(r: Reader, step: Node, names: set[str], last: Last) -> None:
    """Rewrite the name of a step in the writes of its last task: `set` beside the task and in its rules, if these do not read the
    outcome by another name. The step has no other result yet, or an older one."""
    name = str(step.value["step"].value) if "step" in step.value else ""
    if name not in names or name not in last:
        return
    tool = step.value["tool"]
    task = tool.value[-1] if isinstance(tool.value, list) else tool
    task = task if "kind" in task.value else next(iter(task.value.values()))
    scalars = [s for key in ("spec", "set") if (part := task.get(key)) is not None for s in scalars_below(part)]
    if any(read.path[0] in ("outcome", "output") for s in scalars for read in r.reads.get(s.value, ())):
        return
    for scalar in (s for part in _written_by(task) for s in scalars_below(part)):
        reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] == name]
        replace_reads(r, scalar, reads, lambda text: _result_of("outcome.result", last[name][1], text, len(name)))


def _written_by(task: Node) -> Iterator[Node]:
    """Yield each `set` of a task and of its rules."""
    stack = [(key, task.value[key]) for key in ("set", "spec") if key in task.value]
    while stack:
        key, node = stack.pop()
        if key == "set":
            yield node
        elif isinstance(node.value, dict):
            stack.extend((inner, child) for inner, child in node.value.items())
        elif isinstance(node.value, list):
            stack.extend(("", child) for child in node.value)


def _step_result(last: Last, text: str) -> str:
    """Replace the name of a step at the beginning of `text`; `results.<task>` of its last task is its result."""
    name = re.match(r"\w+", text)
    assert name is not None
    at = name.end()
    results = KEY.match(text, at)
    task = KEY.match(text, results.end()) if results is not None and "results" in (results[1], results[2]) else None
    if task is not None and (task[1] or task[2]) == last.get(name[0], ("", ""))[0]:
        at = task.end()
    return _result_of(f"steps.{name[0]}.result", last.get(name[0], ("", ""))[1], text, at)


def _result_of(whole: str, kind: str, text: str, at: int) -> str:
    """Return the result `whole` of a task with the path that continues at `at`; `data` of a result without it is the result."""
    data = KEY.match(text, at)
    if data is not None and "data" in (data[1], data[2]) and kind in _OWN_RESULT:
        end = path_end(text, at)
        if end >= data.end():
            return f"({whole}{text[at:end]} | default({whole}{text[data.end() : end]})){text[end:]}"
    return whole + text[at:]


_OWN_RESULT: Final = frozenset({"python", "noop", "playbook", "workbook"})
"""Kinds whose results have the form that the author gives them: `data` of a result without such a field is the result."""


def _last_tasks(steps: list[Node]) -> dict[str, tuple[str, str]]:
    """Return name and kind of the tasks whose results are those of their steps, by step."""
    out = {}
    for step in steps:
        tool = step.get("tool")
        if "step" not in step.value or tool is None or step.get("loop") is not None:
            continue
        name = str(step.value["step"].value)
        task = tool.value[-1] if isinstance(tool.value, list) and tool.value else tool
        if not isinstance(task.value, dict):
            continue
        label, name_node = f"{name}_task", task.get("name")
        if "kind" not in task.value and len(task.value) == 1:
            ((label, task),) = task.value.items()
        elif name_node is not None:
            label = str(name_node.value)
        kind = task.get("kind")
        if kind is not None:
            out[name] = (label, str(kind.value))
    return out


# --- results of loops ---------------------------------------------------------------------------------------------------


def _loop_results(r: Reader, root: Node, steps: list[Node]) -> None:
    """Rewrite `results` (`data`) and `stats` of the result of a loop: the list itself, and the counts beside it."""
    looped = {str(s.value["step"].value) for s in steps if "step" in s.value and s.get("loop") is not None}
    if not looped:
        return
    whole = [place for section in ("executor", "workflow", "workbook") if (place := root.get(section)) is not None]
    for scalar in (s for place in whole for s in scalars_below(place)):
        reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] == "steps" and _of_loop(read.path[2:])]
        replace_reads(r, scalar, [read for read in reads if read.path[1] in looped], partial(_from_loop, "steps", 2))
    for parts, ended in boundary_places(steps):
        if not ended or any(step.get("loop") is None for step in ended):
            continue
        for scalar in (s for part in parts if part is not None for s in scalars_below(part)):
            reads = [read for read in r.reads.get(scalar.value, ()) if read.path[0] == "event" and _of_loop(read.path[1:])]
            replace_reads(r, scalar, reads, partial(_from_loop, "event", 1))


def _of_loop(path: tuple[str, ...]) -> bool:
    return path[:1] == ("result",) and path[1:2] in (("results",), ("stats",), ("data",))


def _from_loop(root: str, parts: int, text: str) -> str:
    """Replace a path at the beginning of `text` that begins with `root` and `parts` - 1 names before `result`."""
    keys: list[str] = []
    at = len(root)
    while len(keys) <= parts:
        found = KEY.match(text, at)
        if found is None:
            return text
        keys.append(found[1] or found[2])
        at = found.end()
    before = "".join(f".{key}" if key.isidentifier() else f"['{key}']" for key in keys[: parts - 1])
    if keys[-1] in ("results", "data"):
        return f"{root}{before}.result{text[at:]}"
    count = KEY.match(text, at)
    if count is not None and "success" in (count[1], count[2]):
        return f"{root}{before}.loop.succeeded{text[count.end() :]}"
    return f"{root}{before}.loop{text[at:]}"


# --- names --------------------------------------------------------------------------------------------------------------


def bound_names(root: Node) -> set[str]:
    """Return every name that args, ctx, iter or workload may have: a bare name reads those first (resolution 14)."""
    out: set[str] = set()
    workload = root.get("workload")
    if workload is not None and isinstance(workload.value, dict):
        out |= set(workload.value)
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node.value, list):
            stack.extend(node.value)
        elif isinstance(node.value, dict):
            for key, child in node.value.items():
                if key in _BINDING and isinstance(child.value, dict):
                    out |= {k.partition(".")[2] or k for k in child.value}
                elif key == "iterator" and isinstance(child.value, str):
                    out.add(child.value)
                stack.append(child)
    return out


def _task_names(node: Node | None) -> Iterator[str]:
    """Return names and labels of the tasks below a step's tool."""
    if node is None:
        return
    if isinstance(node.value, list):
        for child in node.value:
            yield from _task_names(child)
    elif isinstance(node.value, dict):
        name = node.get("name")
        if name is not None and isinstance(name.value, str):
            yield name.value
        for key, child in node.value.items():
            if isinstance(child.value, dict) and "kind" in child.value:
                yield key
            yield from _task_names(child)
