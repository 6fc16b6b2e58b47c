"""The case dialect: `case/when/then` -> tasks, policies and arcs (resolutions 29 and 31).

The call becomes a task whose policy has the `retry` entries. Every other entry becomes a `noop` task after it (for
`step.enter`: before it). The rule of that task is the condition of the entry, because every entry that matches acts. `call`
jumps back; `next` is recorded in ctx for the arcs; a last task carries out the decisions of the entries and gives the result of
the step.
"""

from __future__ import annotations

from typing import Any

from noetl_migrate.case_entries import CaseEntry, case_entries_of
from noetl_migrate.context import HAND, Context, templates, text_of
from noetl_migrate.entries import Entries, NewTask, otherwise, rule
from noetl_migrate.exits import Exits
from noetl_migrate.names import Names, assignments_of, options_of
from noetl_migrate.overrides import Overrides
from noetl_migrate.routes import rewrite_when
from noetl_migrate.texts import Replace, braced, edit, in_expression, reads
from noetl_migrate.tree import Entry, Map, Node, Seq, mappings_of, node, own, short


def rewrite_case(c: Context, step: Map, name: str) -> Replace | None:
    """Rewrite one step with a `case` in place. Returns the step's `result` as the control plane reads it; None when it was
    refused."""
    case = step.entry("case")
    assert case is not None
    case_entries = case_entries_of(c, case)
    step.pop("case")
    if c.refused:
        return None
    if case_entries:
        above = [*case.before, (0, case.eol.strip())]
        case_entries[0].entry.before = [*(line for line in above if line[1]), *case_entries[0].entry.before]
    made = _Case(c, step, name, case_entries)
    made.rewrite()
    if made.names.result_key:
        c.results[name] = made.names.result_key
    return made.names.routing


class _Case:
    def __init__(self, c: Context, step: Map, name: str, case_entries: list[CaseEntry]) -> None:
        self.c, self.step, self.case_entries = c, step, case_entries
        self.names = Names(c, step, name, case_entries)
        calls = [a for case_entry in self.names.answers for a in case_entry.actions if a.key == "call"]
        self.overrides = Overrides(c, self.names.iter["again"], calls)
        self.entries = Entries(self.names, self.overrides)
        self.exits = Exits(self.names)

    def rewrite(self) -> None:
        self._refuse_what_has_no_form()
        if self.c.refused:
            return
        self._tool_templates()
        n = self.names
        enter = [self.entries.group(a, a.enter or "true", n.common) for a in n.enters]
        after = [self.entries.group(a, self.entries.condition(a), n.after) for a in n.answers]
        leave = []
        if n.looped:
            self.exits.write()
        else:
            leave = [self.entries.group(a, in_expression(a.exit or "true", n.leaving), n.leaving) for a in n.exits]
        taken = [*self.entries.arcs, *self.exits.leaving()]
        self._policy()
        self._place(self._pipeline([g for g in enter if g], [g for g in after if g], [g for g in leave if g]))
        self.exits.route(taken)
        rewrite_when(self.c, self.step)

    def _refuse_what_has_no_form(self) -> None:
        c = self.c
        parallel = any(str(text_of(h.get("mode"))) == "parallel" for h in mappings_of(self.step) if h.get("mode"))
        for case_entry in self.case_entries:
            for action in case_entry.actions:
                key = action.key
                for scalar in templates(action.value):
                    if any(read.path[0] == "event" for read in reads(scalar.value)):
                        c.refuse(scalar, f"{key} reads the event", 'write it without event: "when" already tests event.name')
                if case_entry.called and self.names.tool is None:
                    c.refuse(case_entry.entry, "call.done never comes: the step has no single tool", HAND)
                    return
                if key in ("retry", "call") and (case_entry.enter or case_entry.exit):
                    c.refuse(action, f"{key} needs call.done", "test event.name == 'call.done'")
                if key == "retry" and (case_entry.does("sink", "next", "call", "result", "fail", "skip")):
                    c.refuse(
                        action, "retry beside an action other than set and collect", "make it two entries that exclude each other"
                    )
                if key in ("sink", "collect", "fail", "skip") and case_entry.exit and self.names.looped:
                    c.refuse(action, f"{key} at step.exit of a loop", "route to a step of its own with next")
                if self.names.looped and parallel and case_entry.called and key in ("collect", "next", "result", "set"):
                    c.refuse(action, f"{key} in a parallel loop: iterations would overwrite each other",
                             "mode: sequential, or set_ctx with a reducer in loop.spec.policy.reducers")  # fmt: skip
        for retry in self.names.retries:
            for other in self.names.answers:
                if (retry.error and other.error) or (retry.ok and other.ok):
                    c.warn(
                        other.entry,
                        "this entry may match what is retried: it acts when the tries are used up, not at each of them",
                    )
        if self.names.looped and any(a.does("set", "next", "result") for a in self.names.enters):
            at = next(a for a in self.names.enters if a.does("set", "next", "result"))
            c.warn(at.entry, "step.enter is the first iteration now: a loop over nothing skips these actions")

    def _tool_templates(self) -> None:
        value = self.step.get("tool")
        for scalar in templates(value) if value is not None else ():
            edit(scalar, self.names.common)
        if self.names.tool is not None:
            self.overrides.into(self.names.tool)

    # --- the pipeline ---------------------------------------------------------------------------------------------------

    def _pipeline(self, enter: list[list[NewTask]], after: list[list[NewTask]], leave: list[list[NewTask]]) -> list[Entry] | None:
        """Return the tasks of the step; None when its one tool stays the only one."""
        reset = self._resets()
        if not (enter or after or leave or reset):
            return None
        if reset and enter and enter[0][0].takes(reset):
            enter[0][0].set_ctx[:0] = reset
        elif reset:
            enter.insert(0, [NewTask("enter", "iter.index == 0" if self.names.looped else "true", set_ctx=reset)])
        if enter:
            enter[0][0].name = "enter"
        rules = self._settling()
        leaving = leave[0][0].name if leave else "done"
        for made in (m for group in enter for m in group if m.to == "done"):
            made.to = leaving
        for made in (m for group in [*enter, *after] for m in group if leave and m.do == "break" and m.scope is None):
            made.do, made.to = "jump", leaving  # a step that is skipped exits too
        if self.names.diverted and not any(m.to == leaving for m in enter[-1]):
            enter.append([NewTask("entered", f"ctx.{self.names.flag}", do="jump", to=leaving)])
        end = "settle" if rules and leave else leaving
        called = self.names.call if self.names.tool is not None else after[0][0].name if after else end
        tasks = self._tasks(enter, called)
        if self.names.tool is not None:
            if self.names.tool.entry("name") is None:
                self.names.tool.entries.insert(0, Entry("name", node(called)))
            tasks.append(Entry("", self.names.tool, [line for a in self.names.retries for line in a.entry.before]))
            for case_entry in self.names.retries:
                self.c.place(case_entry.entry, tasks[-1])
        tasks += self._tasks(after, end)
        if rules and leave:
            tasks.append(Entry("", _noop("settle", rules)))
        tasks += self._tasks(leave, "done")
        tasks.append(Entry("", _noop("done", [] if leave else rules, self._last_result())))
        return tasks

    def _resets(self) -> list[Entry]:
        """Return the initial values of each run of the step: nothing collected, no transition taken."""
        initial = {n for a in self.names.enters for action in a.actions if action.key == "set" for n, _ in assignments_of(action)}
        collected = [a for case_entry in self.case_entries for a in case_entry.actions if a.key == "collect"]
        into = dict.fromkeys(str(options_of(a).get("into", "")).removeprefix("ctx.") for a in collected)
        out = [Entry(n, Seq()) for n in into if n not in initial]
        return [*out, Entry(self.names.flag, Seq())] if self.names.flag else out

    def _last_result(self) -> str | None:
        n = self.names
        if n.tool is None:
            return f"iter.{n.iterator}" if n.looped else f"iter.{n.iter['result']}" if n.has_result else None
        may_lack = n.keeps or any(a.does("next", "skip") for a in n.enters)
        value = n.body if n.has_result and not n.looped else n.call
        value = f"{value} | default(none)" if may_lack else value
        return f"iter.{n.iter['result']} | default({value})" if n.has_result and not n.looped else value

    def _settling(self) -> list[Node]:
        """Return the rules that carry out the decisions of the entries."""
        n = self.names
        rules: list[Node] = []
        if self.overrides.deferred:
            rules.append(rule(f"iter.{n.iter['again']} is mapping", {"do": "jump", "to": n.call}))
        if n.keeps:
            error = f"iter.{n.iter['error']}"
            rules.append(rule(f"{error} and not iter.{n.iter['handled']}", {"do": "fail", "error": braced(error)}))
        if n.routed and n.looped:
            rules.append(rule(f"ctx.{n.flag}", {"do": "break", "scope": "loop"}))
        return [*rules, otherwise({"do": "continue"})] if rules else []

    def _tasks(self, groups: list[list[NewTask]], end: str) -> list[Entry]:
        """Return the tasks of some entries; when the condition of one does not hold, the next one follows, or `end`."""
        out = []
        for i, group in enumerate(groups):
            following = groups[i + 1][0].name if i + 1 < len(groups) else end
            for made in group:
                jumps = made is group[0] and len(group) > 1
                out.append(Entry("", made.task({"do": "jump", "to": following} if jumps else {"do": "continue"}), made.before))
                if made.source is not None:
                    self.c.place(made.source, out[-1])
        return out

    # --- the call -------------------------------------------------------------------------------------------------------

    def _policy(self) -> None:
        """Return the policy of the call itself: `retry`, and the values that later tasks need."""
        n = self.names
        if n.tool is None:
            return
        rules: list[Node] = [made for case_entry in n.retries if (made := self.entries.retry(case_entry)) is not None]
        fresh: dict[str, Any] = {n.iter["again"]: None} if self.overrides.deferred else {}
        if n.keeps:
            status = "outcome.http.status" if n.kind == "http" else "outcome.error.code"
            told = braced(f"dict(outcome.error, status={status} | default(none))")
            body = braced("outcome.result.data" if n.kind == "http" else "outcome.result")
            fresh[n.iter["handled"]] = False
            failed = {n.iter["response"]: None, n.iter["error"]: told, **fresh}
            answered = {n.iter["response"]: body, n.iter["error"]: None, **fresh}
            rules.append(rule("outcome.status == 'error'", {"do": "continue", "set_iter": node(failed)}))
            rules.append(otherwise({"do": "continue", "set_iter": node(answered)}))
        elif rules or fresh:
            rules.append(rule("outcome.status == 'error'", {"do": "fail"}))
            rules.append(otherwise({"do": "continue", **({"set_iter": short(fresh)} if fresh else {})}))
        if not rules:
            return
        spec = n.tool.entry("spec")
        if spec is None:
            n.tool.put("spec", {"policy": {"rules": rules}})
            return
        held = own(spec)
        if not isinstance(held, Map) or held.entry("policy"):
            self.c.refuse(spec, "a tool with a policy, in a step with case", "keep one of them")
            return
        held.text = None
        held.put("policy", {"rules": rules})
        spec.raw = None

    def _place(self, tasks: list[Entry] | None) -> None:
        step, at = self.step, self.names.tool_at
        step.changed = True
        if tasks is not None and at is not None:
            at.value, at.raw = Seq(tasks), None
        elif tasks is not None:
            step.put("tool", Seq(tasks), next((i for i, e in enumerate(step.entries) if e.key == "next"), None))
        elif at is not None:
            at.raw = None
            for case_entry in self.names.retries:
                at.before += case_entry.entry.before
                self.c.place(case_entry.entry, at)
        elif self.names.looped:
            element = short({"kind": "noop", "result": braced(f"iter.{self.names.iterator}")})
            step.put("tool", element, step.index("loop") + 1)


def _noop(name: str, rules: list[Node], result: str | None = None) -> Map:
    made = Map([Entry("name", node(name)), Entry("kind", node("noop"))])
    if result is not None:
        made.entries.append(Entry("result", node(braced(result))))
    if rules:
        made.entries.append(Entry("spec", node({"policy": {"rules": rules}})))
    return made
