"""Shapes of values that are known before a run: of the workload, of results, and of values that arcs and ctx pass on.

A shape comes from defaults and `x-schema` of the workload, from results that are written in the playbook, from the envelope of a
kind, from the `schema` of an answer, from the columns of a SELECT, and from the result of a called playbook. A value whose shape
is uncertain has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from noetl_core.dsl.kinds import KINDS
from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.lint.results import ALWAYS, fields_of
from noetl_core.dsl.lint.sql_text import selected_columns
from noetl_core.dsl.model import UNSET, Loop, Path, Playbook, Step, Task
from noetl_core.expr import is_template, views
from noetl_core.values.frozen import frozen

DEEPEST: Final = 12
"""Levels of a value that have a shape."""
MOST_WITHIN: Final = 20
"""Templates evaluated within each other."""
_ANSWERED: Final = {"llm": "data", "callback": ""}
"""Kinds whose answer fits the input `schema`, and the field of the result that has it."""


@frozen
class Shape:
    """The known part of a value: the fields of a mapping, or the element of a list. `closed`: it has no other field. A value that
    is read both ways, such as a table, has both."""

    fields: Mapping[str, Lazy] | None = None
    element: Lazy | None = None
    closed: bool = False

    def get(self, name: str) -> Shape | None:
        """Return the shape of a field or view."""
        if self.fields is None:
            return None
        found = self.fields.get(name)
        if found is None and views.OF_RESPONSE.get(name) in self.fields and frozenset(self.fields) >= views.RESPONSE:
            found = self.fields[views.OF_RESPONSE[name]]
        if found is None and name in (views.ALL, "command_0") and frozenset(self.fields) >= views.TABLE:
            return self
        return None if found is None else found()

    def has(self, name: str) -> bool:
        """Return whether a mapping has a field or view of that name, as far as its fields are known."""
        return self.fields is not None and views.has(frozenset(self.fields), name)

    def each(self) -> Shape | None:
        """Return the shape of an element."""
        return None if self.element is None else self.element()


Lazy = Callable[[], Shape | None]
"""Computes a shape, once: many templates read it."""
Env = Mapping[str, Lazy]
"""The shapes of the names that a template reads."""
Evaluate = Callable[[str, Env], Shape | None]
"""Returns the shape of the value of a template."""


def unknown() -> Shape | None:
    """Return no shape."""
    return None


def once(compute: Lazy) -> Lazy:
    """Return a function that computes a shape when it is first needed, and keeps it."""
    kept: list[Shape | None] = []

    def get() -> Shape | None:
        if not kept:
            kept.append(compute())
        return kept[0]

    return get


def mapping(fields: Iterable[str], known: Mapping[str, Lazy] | None = None, *, closed: bool = True) -> Shape:
    """Return the shape of a mapping whose fields have the shapes of `known`, or none."""
    return Shape({**dict.fromkeys(fields, unknown), **(known or {})}, closed=closed)


def listed(element: Lazy) -> Shape:
    """Return the shape of a list."""
    return Shape(element=element)


def table(columns: Iterable[str] | None, more: Iterable[str] = ()) -> Shape:
    """Return the shape of a result of SQL, whose rows may be read as the result itself."""
    row: Lazy = unknown if columns is None else lambda: mapping(columns)
    return Shape({**dict.fromkeys((*views.TABLE, *more), unknown), "rows": lambda: listed(row)}, element=row, closed=True)


def joined(shapes: Iterable[Shape | None]) -> Shape | None:
    """Return the shape of a value that has one of these shapes: it may have the fields of all."""
    every = list({id(shape): shape for shape in shapes}.values())
    known = [shape for shape in every if shape is not None]
    if not known or len(known) < len(every):
        return None
    if len(known) == 1:
        return known[0]
    if any(shape.fields is None for shape in known):
        return None
    fields: dict[str, list[Lazy]] = {}
    for shape in known:
        for name, one in (shape.fields or {}).items():
            fields.setdefault(name, []).append(one)
    return Shape({name: _join(some) for name, some in fields.items()}, closed=all(shape.closed for shape in known))


def _join(some: list[Lazy]) -> Lazy:
    return some[0] if len(some) == 1 else once(lambda: joined(one() for one in some))


def of_value(value: Any, evaluate: Callable[[str], Shape | None], depth: int = 0) -> Shape | None:
    """Return the shape of a value that is written in the playbook; `evaluate` gives that of its templates."""
    if isinstance(value, str):
        return evaluate(value) if is_template(value) else None
    if depth > DEEPEST or not isinstance(value, dict | list) or not value:
        return None
    if isinstance(value, list):
        return listed(once(lambda: joined(of_value(element, evaluate, depth + 1) for element in value)))
    if any(not isinstance(key, str) or is_template(key) for key in value):
        return None
    return Shape({key: _later(part, evaluate, depth + 1) for key, part in value.items()}, closed=True)


def _later(part: Any, evaluate: Callable[[str], Shape | None], depth: int) -> Lazy:
    return once(lambda: of_value(part, evaluate, depth))


def of_schema(schema: Any) -> Shape | None:
    """Return the shape of a value that fits a JSON Schema."""
    if not isinstance(schema, Mapping) or any(key in schema for key in ("anyOf", "oneOf", "allOf", "$ref")):
        return None
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(properties, Mapping) and properties:
        fields = {str(name): _of_part(part) for name, part in properties.items()}
        return Shape(fields, closed=schema.get("additionalProperties") is False)
    return listed(_of_part(items)) if isinstance(items, Mapping) else None


def _of_part(part: Any) -> Lazy:
    return once(lambda: of_schema(part))


class Shapes:
    """The shapes of a playbook's values, each computed when it is first needed. A value that depends on itself has none."""

    def __init__(self, lint: Lint, evaluate: Evaluate, called: Callable[[Task], Playbook | None]) -> None:
        self._lint, self._playbook, self._called = lint, lint.playbook, called
        self._value_of, self._within_each_other = evaluate, 0
        self._known: dict[object, Shape | None] = {}
        steps = {step.name: self._of(("step", step.name), partial(self._step, step)) for step in self._playbook.steps}
        self._writers: dict[str, list[tuple[Any, Callable[[], Env] | None]]] = {}
        for name, value, env in self._writes():
            self._writers.setdefault(name, []).append((value, env))
        self._reduced = frozenset(key for step in self._playbook.steps if step.loop for key in (*step.set_ctx, *_ctx_of(step)))
        self._tasks = {task.path: task for step in self._playbook.steps for task in (*step.tasks, *step.compensate)}
        self.roots: Env = _Bare(
            {
                "workload": self._of("workload", self._workload),
                "steps": once(lambda: Shape({name: self._of_step(one) for name, one in steps.items()})),
                "ctx": once(lambda: Shape({name: self._of(("ctx", name), partial(self._ctx, name)) for name in self._writers})),
            }
        )
        """The names that all templates read."""
        self._results = steps

    def _of(self, key: object, compute: Lazy) -> Lazy:
        """Return a function that computes a shape once; while it does, the shape is unknown."""

        def get() -> Shape | None:
            if key not in self._known:
                self._known[key] = None
                self._known[key] = compute()
            return self._known[key]

        return get

    def _evaluate(self, text: str, env: Env) -> Shape | None:
        if self._within_each_other >= MOST_WITHIN:
            return None
        self._within_each_other += 1
        try:
            return self._value_of(text, env)
        except RecursionError:  # raised for deep templates
            return None
        finally:
            self._within_each_other -= 1

    # --- names of a place -----------------------------------------------------------------------------------------------

    def around(self, step: Step) -> Env:
        """Return the names that arcs, and admission, of a step read."""
        event = {"result": self._results[step.name]}
        return _Bare({**self.roots, "args": self._args_of(step), "event": lambda: Shape(event)})

    def inside(self, step: Step, tasks: tuple[Task, ...] | None = None) -> Env:
        """Return the names that the tasks of a step read; their own results by name."""
        tasks = step.tasks if tasks is None else tasks
        env: dict[str, Lazy] = {**self.roots, "args": self._args_of(step), "iter": lambda: self._iter(step)}
        for task in tasks:
            env[task.name] = self._of(("task", step.name, task.path, task.name), partial(self._task, step, task))
        return _Bare(env)

    def judged(self, env: Env | None, path: Path, step: Step | None) -> Env:
        """Return the names of `env` with the `outcome` of the task at `path`."""
        task = self._tasks.get(path)
        if env is None or task is None or step is None:
            return self.roots if env is None else env
        own = self._of(("own", path), lambda: self._task(step, task, prev=False))
        return _Bare({**env, "outcome": lambda: Shape({"result": own})})

    def _within(self, step: Step, task: Task) -> Env:
        return self.judged(self.inside(step), task.path, step)

    def fields_of_step(self, name: str) -> frozenset[str]:
        """Return the fields of the result of a step, as far as they are known."""
        shape = self._results[name]()
        return frozenset() if shape is None or shape.fields is None else frozenset(shape.fields)

    def _args_of(self, step: Step) -> Lazy:
        return self._of(("args", step.name), lambda: self._args(step))

    def _args(self, step: Step) -> Shape | None:
        """Return the shape of a step's arguments: those of the arcs that lead to it, over its own."""
        arriving: dict[str, list[Lazy]] = {}
        for source in self._playbook.steps:
            for arc in source.router.arcs if source.router is not None else ():
                if arc.step == step.name:
                    for name, value in arc.args.items():
                        arriving.setdefault(name, []).append(self._value(source, value, partial(self.around, source)))
        for name, value in step.args.items():
            arriving.setdefault(name, []).append(self._value(step, value, lambda: self.around(step)))
        return Shape({name: _join(some) for name, some in arriving.items()})

    def _value(self, step: Step, value: Any, env: Callable[[], Env]) -> Lazy:
        """Return the shape of a value at a step; by an alias, one value may be at several."""
        return self._of(("value", step.name, id(value)), partial(self._read, value, env))

    def _read(self, value: Any, env: Callable[[], Env]) -> Shape | None:
        return of_value(value, lambda text: self._evaluate(text, env()))

    def _iter(self, step: Step) -> Shape | None:
        fields: dict[str, Lazy] = {}
        loop: Loop | None = step.loop
        while loop is not None:
            if loop.cursor is None:
                fields[loop.iterator] = self._of(("iter", step.name, loop.iterator), partial(self._element, step, loop))
            loop = loop.inner
        for name, *_ in self._writes("iter", (step,)):
            fields.pop(name, None)
        return Shape(fields)

    def _element(self, step: Step, loop: Loop) -> Shape | None:
        found = of_value(loop.in_, lambda text: self._evaluate(text, self.around(step)))
        if found is not None and found.element is None and found.fields is not None:
            return mapping(("key", "value")) if found.closed else None
        return None if found is None else found.each()

    # --- values ---------------------------------------------------------------------------------------------------------

    def _workload(self) -> Shape | None:
        """Return the shape of the workload. Requests may add fields, unless `x-schema` forbids them."""
        schema = of_schema(self._playbook.inputs or {})
        fields: dict[str, Lazy] = {} if schema is None or schema.fields is None else dict(schema.fields)
        for name, value in self._playbook.workload.items():
            fields.setdefault(name, once(partial(_default, value)))
        return Shape(fields)

    def _writes(
        self, scope: str = "ctx", steps: tuple[Step, ...] | None = None
    ) -> Iterator[tuple[str, Any, Callable[[], Env] | None]]:
        """Yield the keys written to ctx or iter, with the value and the names that it reads (None: those are not known)."""
        for step in self._playbook.steps if steps is None else steps:
            for name, value in step.set_ctx.items() if scope == "ctx" else ():
                yield name, value, partial(self.around, step)
            for task in (*step.tasks, *step.compensate):
                env = partial(self._within, step, task)
                for name, value in (task.set_ctx if scope == "ctx" else task.set_iter).items():
                    yield name, value, env if task in step.tasks else None
                for rule in task.policy.rules if task.policy is not None else ():
                    for name, value in (rule.then.set_ctx if scope == "ctx" else rule.then.set_iter).items():
                        yield name, value, env if task in step.tasks else None
        for task in self._playbook.workbook.values() if steps is None else ():
            for name, value in task.set_ctx.items():
                yield name, value, None

    def _ctx(self, name: str) -> Shape | None:
        """Return the shape of a value of ctx, if every write of it has one. Loops may reduce their writes."""
        writes = () if name in self._reduced else self._writers[name]
        return joined([None if env is None else self._read(value, env) for value, env in writes])

    def _of_step(self, result: Lazy) -> Lazy:
        return once(lambda: Shape({"result": result}))

    def _step(self, step: Step) -> Shape | None:
        """Return the shape of a step's result: that of its last task, where it always ends with it; of a loop, a list of them."""
        if not step.tasks:
            return None
        moves = {rule.then.do for task in step.tasks for rule in (task.policy.rules if task.policy is not None else ())}
        last = step.tasks[-1]
        if len(step.tasks) > 1 and (moves & {"jump", "break"} or last.policy is not None):
            return None
        found = self.inside(step)[last.name]()
        loop = step.loop
        while loop is not None and found is not None:
            found, loop = listed(partial(_same, found)), loop.inner
        return found

    def _task(self, step: Step, task: Task, *, prev: bool = True) -> Shape | None:
        """Return the shape of a task's result; with `prev`, None if its rules may replace it."""
        rules = task.policy.rules if task.policy is not None and prev else ()
        if any(rule.then.set_prev is not UNSET for rule in rules):
            return None
        if task.kind == "noop":
            key = next((key for key in ("result", "data", "args") if key in task.inputs), "")
            return _lenient(of_value(task.inputs.get(key), lambda text: self._evaluate(text, self.inside(step))))
        if task.kind == "playbook":
            return self._child(task)
        if task.kind in _ANSWERED and (schema := of_schema(task.inputs.get("schema"))) is not None:
            field = _ANSWERED[task.kind]
            return mapping(KINDS[task.kind].gives or (), {field: lambda: schema}, closed=False) if field else schema
        fields = fields_of(task, programs=self._lint.r.program_reads)
        if fields is None:
            return None
        if fields >= views.TABLE:
            return table(_columns(task), fields - views.TABLE)
        return mapping(fields)

    def _child(self, task: Task) -> Shape | None:
        child = self._called(task)
        if child is None or child.executor.result is UNSET or "return_step" in task.inputs:
            return None
        return of_value(child.executor.result, lambda _: None)


def _lenient(shape: Shape | None) -> Shape | None:
    """Add the names that other dialects read of any result."""
    if shape is None or shape.fields is None:
        return shape
    return Shape({**dict.fromkeys(ALWAYS, unknown), **shape.fields}, shape.element, shape.closed)


def _ctx_of(step: Step) -> Iterator[str]:
    for task in step.tasks:
        yield from task.set_ctx
        for rule in task.policy.rules if task.policy is not None else ():
            yield from rule.then.set_ctx


def _columns(task: Task) -> tuple[str, ...] | None:
    """Return the columns of the one SELECT of a task."""
    command = next((task.inputs[key] for key in ("command", "query", "sql") if key in task.inputs), None)
    return selected_columns(task.kind, command) if isinstance(command, str) and not is_template(command) else None


def _same(shape: Shape | None) -> Shape | None:
    return shape


def _default(value: Any) -> Shape | None:
    return _opened(of_value(value, lambda _: None))


def _opened(shape: Shape | None) -> Shape | None:
    """Return the shape of a default: a request may add fields at every level."""
    if shape is None:
        return None
    fields = None if shape.fields is None else {name: _later_opened(one) for name, one in shape.fields.items()}
    return Shape(fields, None if shape.element is None else _later_opened(shape.element))


def _later_opened(one: Lazy) -> Lazy:
    return once(lambda: _opened(one()))


class _Bare(dict[str, Lazy]):
    """Names, with those of `args`, `ctx`, `iter` and `workload`, and the results of steps, without their namespace (resolution
    14)."""

    def get(self, name: str, default: Any = None) -> Any:
        found = super().get(name)
        if found is not None:
            return found
        for namespace in ("args", "ctx", "iter", "workload"):
            shape = self[namespace]() if namespace in self else None
            if shape is not None and shape.fields is not None and name in shape.fields:
                return shape.fields[name]
        steps = self["steps"]() if "steps" in self else None
        step = None if steps is None else steps.get(name)
        return default if step is None else lambda: step.get("result")
