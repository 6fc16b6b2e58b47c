"""Rewrites one step of either dialect: the parts that both have, then its `case`, or its tasks and `next`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from noetl_core.expr import Read
from noetl_migrate.cases import rewrite_case
from noetl_migrate.context import HAND, Context, identifier, path, templates, text_of, variable_read
from noetl_migrate.evals import has_older_rules, merged, rewrite_task, written_variables
from noetl_migrate.results import result_of, step_result
from noetl_migrate.routes import rewrite_next, rewrite_when
from noetl_migrate.texts import Replace, edit, reads
from noetl_migrate.tree import Entry, Map, Node, Scalar, Seq, followed, mappings_of, node, own, short
from noetl_migrate.words import inputs_of, tool_words

OLDER: Final = {
    "type": "kind of the tool says what runs",
    "collect": "set_ctx with a reducer",
    "as": "a result is steps.<name>.result",
    "save": "a task of its own that stores",
    "call": "a tool stands under tool",
    "eval": "eval belongs to a task",
    "with": "args are the step's inputs",
}


def tasks_of(tool: Node | None) -> Iterator[Map]:
    """Yield the tasks below a step's tool or a list of tasks, in all forms."""
    tool = None if tool is None else followed(tool)
    if isinstance(tool, Seq):
        for item in tool.entries:
            yield from _listed(item)
    elif isinstance(tool, Map) and tool.entry("kind"):
        yield tool


def _listed(item: Entry) -> Iterator[Map]:
    value = followed(item.value)
    if not isinstance(value, Map):
        return
    if value.entry("kind") or value.entry("name"):
        yield value
        return
    for e in value.entries:
        held = followed(e.value)
        if isinstance(held, Map) and held.entry("kind"):
            yield held
        elif isinstance(held, Seq):  # choose, while, until
            for inner in held.entries:
                yield from _listed(inner)


def is_legacy(step: Map) -> bool:
    """Return whether the step is written in a form that validation refuses as legacy."""
    spec, next_ = step.get("spec"), step.entry("next")
    if any(step.entry(key) for key in ("when", "case", "vars", "pipe", "sink", *OLDER)):
        return True
    if isinstance(spec, Map) and spec.entry("next_mode"):
        return True
    if next_ is not None and not _canonical(followed(next_.value)):
        return True
    return any(legacy_task(task) for task in tasks_of(step.get("tool")))


def _canonical(router: Node) -> bool:
    """Return whether a router is in the canonical form, or nothing is written there."""
    return not router.entry("step") if isinstance(router, Map) else isinstance(router, Scalar) and router.value is None


def legacy_task(task: Map) -> bool:
    older = any(task.entry(key) for key in ("eval", "policy", "when", "case", "sink", "pipe"))
    return older or has_older_rules(task) or (task.entry("with") is not None and "with" not in inputs_of(task))


def rewrite_step(c: Context, item: Entry) -> None:
    """Rewrite one step in place."""
    step = own(item)
    assert isinstance(step, Map)
    name = str(text_of(step.get("step")))
    for key, instead in OLDER.items():
        found = step.entry(key)
        if found is not None:
            c.refuse(found, f'"{key}" of a step is a form of neither dialect: {instead}', HAND)
    if step.entry("<<") is not None:
        c.refuse(step.entry("<<") or item, "a legacy step made by a merge key", "write the step out")
        return
    if c.refused:
        return
    if step.text is not None and item.eol and not step.entries[0].eol:
        step.entries[0].eol, item.eol = item.eol, ""
    step.text = None
    _pipe(c, step)
    for task in list(tasks_of(step.get("tool"))):
        tool_words(c, task)
    scope = _result_scope(c, step, name)
    if step.entry("case") is not None:
        scope = rewrite_case(c, step, name) or scope
    else:
        _sink(c, step)
        _tasks(c, step, name)
        rewrite_when(c, step)
        rewrite_next(c, step)
    _extracted(c, step, scope)


def _pipe(c: Context, step: Map) -> None:
    """Rewrite `pipe: [tasks]`, on the step or its tool, to a list under `tool`."""
    pipe, tool = step.entry("pipe"), step.entry("tool")
    if pipe is not None and tool is not None:
        c.refuse(pipe, "the step has pipe and tool", "keep tool")
    elif pipe is not None:
        step.rename(pipe, "tool")
    elif tool is not None and isinstance(held := followed(tool.value), Map) and held.entry("pipe") and len(held.entries) == 1:
        tool.value, tool.raw = held.entries[0].value, None


def _sink(c: Context, step: Map) -> None:
    """Rewrite a `sink` block of a step without case to a task that stores the result of its tool."""
    sink, at = step.pop("sink"), step.entry("tool")
    if sink is None:
        return
    body = own(sink)
    held = body.get("tool") if isinstance(body, Map) and body.entry("tool") else body
    if not isinstance(body, Map) or not isinstance(held, Map) or held.entry("kind") is None:
        c.refuse(sink, "a sink must be a tool", "sink: { tool: { kind: ... } }")
        return
    tool = own(at) if at is not None else None
    if at is None or not isinstance(tool, Map) or tool.entry("kind") is None:
        c.refuse(sink, "a sink beside anything but one tool", f"{HAND}: the sink becomes the last task")
        return
    source = text_of(tool.get("name")) or "call"
    if tool.entry("name") is None:
        tool.entries.insert(0, Entry("name", node(source)))
    held.entries += [e for e in body.entries if body is not held and e.key == "args"]
    held.entries.insert(0, Entry("name", node("sink")))
    for task in (tool, held):
        task.text, task.changed = None, True
    tool_words(c, held)
    kind = c.kind_of(tool)
    for scalar in templates(held):
        edit(scalar, lambda read, text: result_of(read, text, ("result", "response"), source, kind))
    done = Map([Entry("name", node("done")), Entry("kind", node("noop")), Entry("result", node(f"{{{{ {source} }}}}"))])
    at.value, at.raw = Seq([Entry("", tool), Entry("", held, sink.before), Entry("", done)]), None
    step.changed = True


# --- tasks of the eval dialect ------------------------------------------------------------------------------------------


def _tasks(c: Context, step: Map, name: str) -> None:
    parallel = is_parallel(step)
    for task in list(tasks_of(step.get("tool"))):
        if task.entry("eval") or task.entry("policy") or has_older_rules(task) or legacy_task(task):
            task.text = None
            rewrite_task(c, task, parallel)
    _step_variables(c, step, name, parallel)


def is_parallel(step: Map) -> bool:
    loop = step.get("loop")
    spec = loop.get("spec") if isinstance(loop, Map) else None
    policy = spec.get("policy") if isinstance(spec, Map) else None
    words = [text_of(held.get("mode")) for held in (spec, policy) if isinstance(held, Map)]
    return "parallel" in words


def _step_variables(c: Context, step: Map, name: str, parallel: bool) -> None:
    """Rewrite `set_vars`, which holds for one step run, to iter, or to ctx where the step's arcs or later iterations read it."""
    written = written_variables(step)
    if not written:
        return
    looped = step.entry("loop") is not None
    outside = {x for key in ("next", "spec", "args") for x in _variables_read(step.get(key))}
    names: dict[str, dict[str, str]] = {"set_iter": {}, "set_ctx": {}}
    taken = _iteration_names(step)
    for variable, at in written.items():
        if variable in outside and parallel:
            c.refuse(at, f"vars.{variable} is written by a parallel loop and read by the step's arcs",
                     "write set_ctx, and a reducer in loop.spec.policy.reducers")  # fmt: skip
        elif variable in c.variables:
            names["set_ctx"][variable] = c.variables[variable]
        elif variable in outside or (looped and not parallel):
            free = variable not in c.ctx_names and variable not in c.bare_names
            names["set_ctx"][variable] = c.fresh_ctx(variable if free else f"{identifier(name)}_{variable}")
        else:
            free = variable not in taken and variable not in c.bare_names
            names["set_iter"][variable] = variable if free else f"vars_{variable}"
    for holder in list(mappings_of(step)):
        for key in ("set_iter", "set_ctx"):
            old = holder.entry("set_vars")
            if old is not None and any(e.key in names[key] for e in getattr(followed(old.value), "entries", ())):
                merged(c, holder, old, key, names[key])
    reset = {new: old for old, new in names["set_ctx"].items() if old not in c.variables}

    def renamed(read: Read, text: str) -> tuple[str, str] | None:
        found = variable_read(text) if read.path[0] == "vars" else None
        if found is None:
            return None
        for scope, new_names in (("iter", names["set_iter"]), ("ctx", names["set_ctx"])):
            if found[1] in new_names:
                return found[0], f"{scope}.{new_names[found[1]]}"
        return None

    for scalar in templates(step):
        edit(scalar, renamed)
    if reset and name in c.revisited:
        _reset(c, step, reset, looped)


def _variables_read(value: Node | None) -> Iterator[str]:
    for scalar in templates(value) if value is not None else ():
        for read in reads(scalar.value):
            if read.path[0] == "vars" and len(read.path) > 1:
                yield read.path[1]


def _iteration_names(step: Map) -> set[str]:
    loop = step.get("loop")
    taken = {"index", "parent", str(text_of(loop.get("iterator")) if isinstance(loop, Map) else "")}
    for holder in mappings_of(step):
        held = holder.get("set_iter")
        if isinstance(held, Map):
            taken |= {e.key for e in held.entries}
    return taken


def _reset(c: Context, step: Map, reset: dict[str, str], looped: bool) -> None:
    """Let each run of the step begin with its variables unset."""
    tool = step.entry("tool")
    assert tool is not None
    held = own(tool)
    tasks = held.entries if isinstance(held, Seq) else [Entry("", held)]
    writes = short(dict.fromkeys(reset))
    then = Map([Entry("do", node("continue")), Entry("set_ctx", writes)])
    otherwise = Map([Entry("else", Map([Entry("then", then)]))])
    rules: list[Node] = [otherwise]
    if looped:
        first = Map([Entry("when", node("{{ iter.index == 0 }}")), Entry("then", then)])
        rules = [first, Map([Entry("else", Map([Entry("then", short({"do": "continue"}))]))])]
    task = Map([Entry("name", node("begin")), Entry("kind", node("noop")), Entry("spec", node({"policy": {"rules": rules}}))])
    tool.value, tool.raw = Seq([Entry("", task), *tasks]), None
    step.changed = True
    for old in reset.values():
        c.warn(step.entries[0], f"the step may run again: vars.{old} begins as null then, not as undefined")


# --- vars of the case dialect -------------------------------------------------------------------------------------------


def _result_scope(c: Context, step: Map, name: str) -> Replace:
    """Return the expression for `result` that the control plane reads, in a step without case."""
    kinds = [c.kind_of(task) for task in tasks_of(step.get("tool"))]
    base, kind = path("steps", name) + ".result", kinds[-1] if kinds else None
    looped = step.entry("loop") is not None
    return lambda read, text: step_result(read, text, base, kind, looped)


def _extracted(c: Context, step: Map, scope: Replace) -> None:
    """Rewrite the `vars` block, which reads the step's result after its end, to `set_ctx` of the step."""
    block = step.entry("vars")
    if block is None:
        return
    values = own(block)
    if not isinstance(values, Map):
        c.refuse(block, "vars of a step must be a mapping")
        return
    for scalar in templates(values):
        edit(scalar, scope)
    for e in values.entries:
        if c.variables[e.key] != e.key:
            values.rename(e, c.variables[e.key])
    step.changed = True
    if step.entry("set_ctx") is not None:
        merged(c, step, block, "set_ctx")
    else:
        step.rename(block, "set_ctx")
