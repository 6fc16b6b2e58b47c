"""The entries of a `case` as tasks: each a noop whose rule is its condition; a `sink` becomes a task of its own after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from noetl_core.expr import is_template
from noetl_migrate.case_entries import CaseEntry
from noetl_migrate.context import HAND, identifier, path, templates, text_of
from noetl_migrate.names import LOCALS, Names, assignments, assignments_of, options_of, source_expression, sourced
from noetl_migrate.overrides import Overrides
from noetl_migrate.routes import arcs_of
from noetl_migrate.texts import Replace, all_of, alone, as_expression, braced, edit, in_expression, reads
from noetl_migrate.tree import Comment, Entry, Map, Node, Scalar, mappings_of, node, own, short
from noetl_migrate.words import tool_words

RETRY_KEYS = ("max_attempts", "attempts", "initial_delay", "delay", "backoff_multiplier", "max_delay", "jitter")


@dataclass(slots=True)
class NewTask:
    """A task that the migration writes: the noop of an entry, or a `sink`."""

    name: str
    condition: str = "true"
    do: str = "continue"
    to: str | None = None
    scope: str | None = None
    error: Any = None
    set_ctx: list[Entry] = field(default_factory=list)
    set_iter: list[Entry] = field(default_factory=list)
    tool: Map | None = None
    desc: Entry | None = None
    source: Entry | None = None
    """The entry of `case` that this is the first task of."""
    before: list[Comment] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        return not (self.set_ctx or self.set_iter or self.tool) and self.do == "continue"

    def takes(self, reset: list[Entry]) -> bool:
        """Return whether the initial values of the step can be written with this task: it always runs, and reads and writes
        none of them."""
        names = {e.key for e in reset}
        used = {e.key for e in self.set_ctx}
        used |= {r.path[1] for e in self.set_ctx for s in templates(e.value) for r in reads(s.value) if len(r.path) > 1}
        return self.condition in ("true", "iter.index == 0") and not names & used

    def task(self, alternative: dict[str, Any]) -> Map:
        """Return the task; `alternative` is the directive of its rule if the condition does not hold."""
        if self.tool is not None:
            return self.tool
        then = Map([Entry("do", node(self.do))])
        then.entries += [
            Entry(key, node(value))
            for key, value in (("to", self.to), ("scope", self.scope), ("error", self.error))
            if value is not None
        ]
        then.entries += [
            Entry(key, Map(written)) for key, written in (("set_ctx", self.set_ctx), ("set_iter", self.set_iter)) if written
        ]
        then.compact = not (self.set_ctx or self.set_iter)
        rules: list[Node] = [Map([Entry("else", Map([Entry("then", then)]))])]
        if self.condition != "true":
            rules = [Map([Entry("when", node(braced(self.condition))), Entry("then", then)]), otherwise(alternative)]
        written = Map([Entry("name", node(self.name)), Entry("kind", node("noop"))])
        if self.desc is not None:
            written.entries.append(self.desc)
        written.entries.append(Entry("spec", node({"policy": {"rules": rules}})))
        return written


class Entries:
    """Builds the tasks of each entry. `arcs` collects the targets of their `next`, each with the condition of its arc."""

    def __init__(self, names: Names, overrides: Overrides) -> None:
        self.names, self.overrides, self.c = names, overrides, names.c
        self.arcs: list[tuple[str, list[Entry]]] = []

    def condition(self, case_entry: CaseEntry) -> str:
        """Return the condition of an entry that answers the call."""
        if not self.names.keeps:
            return in_expression(case_entry.ok or "false", self.names.after)
        failed = f"iter.{self.names.iter['error']}"
        return self._either(case_entry, self.names.after, f"not {failed}", failed)

    def group(self, case_entry: CaseEntry, condition: str, scope: Replace) -> list[NewTask]:
        """Return the tasks of one entry. The first one has the condition; a new one begins where an action reads a value that an
        earlier one wrote."""
        entering, leaving = scope == self.names.common, scope == self.names.leaving
        if entering:
            condition = in_expression(condition, scope)
            if self.names.looped:
                condition = all_of(["iter.index == 0", condition])
        desc = case_entry.entry.value.entry("desc") if isinstance(case_entry.entry.value, Map) else None
        group = [NewTask(case_entry.label, condition, desc=desc, source=case_entry.entry, before=case_entry.entry.before)]
        if self.names.keeps and case_entry.error is not None and not case_entry.does("fail") and not (entering or leaving):
            group[0].set_iter.append(Entry(self.names.iter["handled"], node(True)))
        for action in case_entry.actions:
            if action.key == "next" and case_entry not in self.names.routed:
                continue  # the arc has the condition itself
            task = group[-1]
            if task.tool is not None or self._reads_written(action, task):
                task = NewTask(_free(f"{case_entry.label}_{action.key}", group))
                group.append(task)
            getattr(self, f"_{action.key}")(case_entry, action, group, scope)
            if group[-1].do != "continue" or action.key == "skip":
                break
        return [] if all(m.idle for m in group) else group

    def _reads_written(self, action: Entry, task: NewTask) -> bool:
        """Return whether an action needs a task of its own: it reads or writes a value that this task writes (a rule renders
        everything before it writes)."""
        written = {e.key for e in task.set_ctx}
        if action.key == "set" and written & {name for name, _ in assignments_of(action)}:
            return True
        return bool(written) and bool(written & self._read_in(action))

    def _read_in(self, action: Entry) -> set[str]:
        texts = [s.value for s in templates(action.value)]
        if action.key == "next":  # arcs read themselves the names that they see
            maps = [args for held in mappings_of(action.value) if isinstance(args := held.get("args"), Map)]
            kept = [e.value for args in maps for e in args.entries if self._is_kept(e.value)]
            texts = [s.value for value in kept for s in templates(value)]
        options = options_of(action)
        source = options.get("from")
        if action.key in ("result", "collect") and isinstance(source, str):
            texts.append(source if is_template(source) else braced(source))
        out = {str(options.get("into", "")).removeprefix("ctx.")} if action.key == "collect" else set()
        for read in (read for text in texts for read in reads(text)):
            out.add(read.path[1] if read.path[0] == "ctx" and len(read.path) > 1 else read.path[0])
        return out

    def _set(self, case_entry: CaseEntry, action: Entry, group: list[NewTask], scope: Replace) -> None:
        held = own(action)
        if not isinstance(held, Map):
            self.c.refuse(action, "set must be a mapping")
            return
        for name, e in assignments(held):
            for scalar in templates(e.value):
                edit(scalar, scope)
            group[-1].set_ctx.append(Entry(name, e.value, e.before, e.eol, None, "", e.line, e.col))

    def _collect(self, case_entry: CaseEntry, action: Entry, group: list[NewTask], scope: Replace) -> None:
        options = options_of(action)
        source, into, mode = options.get("from"), str(options.get("into", "")).removeprefix("ctx."), options.get("mode", "append")
        if not isinstance(source, str) or not into:
            self.c.refuse(action, 'collect needs "from" and "into"')
            return
        if mode not in ("append", "extend"):
            self.c.refuse(action, f"collect with mode {mode}", f"append or extend; or {HAND}")
            return
        value = source_expression(source, scope)
        added = f"[{value}]" if mode == "append" else alone(value)
        group[-1].set_ctx.append(Entry(into, node(braced(f"ctx.{into} + {added}"))))

    def _result(self, case_entry: CaseEntry, action: Entry, group: list[NewTask], scope: Replace) -> None:
        value = sourced(action, scope)
        if self.names.looped:
            group[-1].set_ctx.append(Entry(self.names.result_key, value))
        else:
            group[-1].set_iter.append(Entry(self.names.iter["result"], value))

    def _next(self, case_entry: CaseEntry, action: Entry, group: list[NewTask], scope: Replace) -> None:
        arcs = arcs_of(self.c, action)
        kept: list[Entry] = []
        for arc in arcs:
            args = arc.value.get("args") if isinstance(arc.value, Map) else None
            for e in args.entries if isinstance(args, Map) else ():
                kept += self._kept_argument(case_entry, e, scope)
        task = group[-1]
        if kept:
            task.set_ctx.append(Entry(self._kept_key(case_entry), Map(kept)))
        task.set_ctx.append(Entry(self.names.flag, node(braced(f"ctx.{self.names.flag} + ['{case_entry.label}']"))))
        if case_entry.enter is not None and [case_entry] == self.names.diverted and case_entry is self.names.enters[-1]:
            task.do, task.to = "jump", "done"
        taken = f"'{case_entry.label}' in ctx.{self.names.flag}"
        if self.names.fails_late:
            taken = f"event.name == '{self.names.done}' and {taken}"
        self.arcs.append((taken, arcs))

    def _kept_key(self, case_entry: CaseEntry) -> str:
        return f"{identifier(self.names.name)}_{case_entry.label}"

    def _kept_argument(self, case_entry: CaseEntry, e: Entry, scope: Replace) -> list[Entry]:
        """Render an argument with names that arcs do not see in the task of the entry; the arc reads its value from ctx."""
        if not self._is_kept(e.value):
            for scalar in templates(e.value):
                edit(scalar, scope)
            return []
        if any(r.path[0] == self.names.iterator for s in templates(e.value) for r in reads(s.value)):
            self.c.warn(
                e, f"the case dialect has no {self.names.iterator} in args of next; here it is the element the loop ended with"
            )
        value = e.value
        for scalar in templates(value):
            edit(scalar, scope)
        e.value, e.raw = node(braced(path("ctx", self._kept_key(case_entry), e.key))), None
        return [Entry(e.key, value)]

    def _is_kept(self, value: Node) -> bool:
        """Return whether a value reads names that only the pipeline sees."""
        found = {r.path[0] for s in templates(value) for r in reads(s.value)}
        return bool(found & {*LOCALS, "iter", self.names.iterator})

    def _call(self, case_entry: CaseEntry, action: Entry, group: list[NewTask], scope: Replace) -> None:
        task = group[-1]
        task.set_iter.append(Entry(self.names.iter["again"], self.overrides.of(action, scope)))
        if case_entry is self.names.answers[-1] and action is case_entry.actions[-1]:
            task.do, task.to = "jump", self.names.call
        else:
            self.overrides.deferred = True

    def _sink(self, case_entry: CaseEntry, action: Entry, group: list[NewTask], scope: Replace) -> None:
        body = own(action)
        inner = body.get("tool") if isinstance(body, Map) and body.entry("tool") else body
        if not isinstance(inner, Map) or inner.entry("kind") is None or not isinstance(body, Map):
            self.c.refuse(action, "a sink must be a tool", "sink: { tool: { kind: ... } }")
            return
        extra = [e for e in body.entries if body is not inner and e.key != "tool"]
        for e in extra:
            if e.key != "args" or inner.entry("args"):
                self.c.refuse(e, f'unknown key "{e.key}" in sink', "it has tool and args")
        inner.text, inner.changed = None, True
        inner.entries += extra
        tool_words(self.c, inner)
        for scalar in templates(inner):
            edit(scalar, scope)
        name = inner.pop("name")
        inner.entries.insert(0, name or Entry("name", node(f"{case_entry.label}_sink")))
        group.append(NewTask(str(text_of(inner.get("name"))), tool=inner))

    def _fail(self, case_entry: CaseEntry, action: Entry, group: list[NewTask], scope: Replace) -> None:
        value = own(action)
        message = value.get("message") or value.get("reason") or value.get("error") if isinstance(value, Map) else value
        task = group[-1]
        task.do = "fail"
        if isinstance(message, Scalar) and isinstance(message.value, str):
            edit(message, scope)
            task.error = message
        elif self.names.keeps and case_entry.ok is None and case_entry.error is not None:
            task.error = node(braced(f"iter.{self.names.iter['error']}"))

    def _skip(self, case_entry: CaseEntry, action: Entry, group: list[NewTask], scope: Replace) -> None:
        if scope == self.names.leaving:
            return  # the step has ended: only this entry's actions end
        group[-1].do, group[-1].scope = "break", "loop" if self.names.looped else None

    def retry(self, case_entry: CaseEntry) -> Map | None:
        """Return the rule of the call's policy for an entry with `retry`."""
        action = next(a for a in case_entry.actions if a.key == "retry")
        options = options_of(action)
        unknown = [key for key in options if key not in RETRY_KEYS]
        if unknown:
            self.c.refuse(action, f'unknown key "{unknown[0]}" in retry', f"it has {', '.join(RETRY_KEYS)}")
            return None
        attempts = options.get("max_attempts", options.get("attempts"))
        if attempts is None:
            self.c.warn(action, "retry without max_attempts: v10 runs a task 3 times", "write max_attempts")
            attempts = 3
        condition = self._either(case_entry, self.names.in_policy, "outcome.status == 'ok'", "outcome.status == 'error'")
        if self.names.keeps or case_entry.ok is not None:  # used up, the other entries have their turn
            condition = all_of([condition, f"_attempt < {as_expression(attempts)}"])
        multiplier = options.get("backoff_multiplier")
        backoff = {
            "backoff": None if multiplier is None else "exponential",
            "backoff_multiplier": None if multiplier == 2 else multiplier,
            "delay": options.get("initial_delay", options.get("delay")),
            "max_delay": options.get("max_delay"),
            "jitter": options.get("jitter"),
        }
        then: dict[str, Any] = {"do": "retry", "attempts": attempts, **{k: v for k, v in backoff.items() if v is not None}}
        writes = [NewTask(case_entry.label)]
        for other in case_entry.actions:
            if other.key in ("set", "collect"):
                getattr(self, f"_{other.key}")(case_entry, other, writes, self.names.in_policy)
        if writes[0].set_ctx:
            then["set_ctx"] = Map(writes[0].set_ctx)
        return rule(condition, then)

    def _either(self, case_entry: CaseEntry, scope: Replace, succeeded: str, failed: str) -> str:
        """Return the condition of an entry at `call.done`, whatever the outcome was."""
        ok = None if case_entry.ok is None else in_expression(case_entry.ok, scope)
        error = None if case_entry.error is None else in_expression(case_entry.error, scope)
        if ok is not None and ok == error:
            return ok
        parts = [all_of([succeeded, ok])] if ok is not None else []
        parts += [all_of([failed, error])] if error is not None else []
        return parts[0] if len(parts) == 1 else " or ".join(alone(p) for p in parts)


def _free(name: str, group: list[NewTask]) -> str:
    taken = {task.name for task in group}
    return next(n for n in (name, *(f"{name}_{i}" for i in range(2, 100))) if n not in taken)


def rule(condition: str, then: dict[str, Any]) -> Map:
    body = short(then)
    body.compact = not any(isinstance(v, Map) and v.entries for v in then.values())
    return Map([Entry("when", node(braced(condition))), Entry("then", body)])


def otherwise(then: dict[str, Any]) -> Map:
    body = short(then)
    body.compact = not any(isinstance(v, Map) and v.entries and not v.compact for v in then.values())
    return Map([Entry("else", Map([Entry("then", body)]))])
