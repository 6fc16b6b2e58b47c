"""Migrates `step.exit` and the transitions: the values that a step writes after its loop, and the arcs of its router."""

from __future__ import annotations

from noetl_migrate.case_entries import CaseEntry
from noetl_migrate.context import templates
from noetl_migrate.names import Names, assignments, sourced
from noetl_migrate.routes import arcs_of, router
from noetl_migrate.texts import NoExpression, all_of, alone, as_expression, braced, edit, in_expression, negated, reads
from noetl_migrate.tree import Entry, Map, Node, Scalar, Seq, followed, node, own, plain

Taken = list[tuple[str, list[Entry]]]
"""Transitions of the entries: the condition of their arcs, and the arcs."""


class Exits:
    """Arcs and writes of one step."""

    def __init__(self, names: Names) -> None:
        self.names, self.c, self.step = names, names.c, names.step

    def write(self) -> None:
        """Rewrite `set` and `result` after a loop: the step writes these values if its boundary is a success."""
        written: dict[str, Node] = {}
        for case_entry in self.names.exits:
            condition = self._condition(case_entry) if case_entry.does("set", "result") else "true"
            for action in case_entry.actions:
                for name, value in self._pairs(action):
                    self._in_arcs(value)
                    read = {r.path[1] for s in templates(value) for r in reads(s.value) if r.path[0] == "ctx" and len(r.path) > 1}
                    if read & set(written):
                        self.c.refuse(
                            action, f"ctx.{min(read & set(written))} is written before it is read at step.exit of a loop"
                        )
                    if condition != "true":
                        value = self._under(condition, written.get(name, node(braced(f"ctx.{name}"))), value)
                    written[name] = value
        if written:
            at = next((i for i, e in enumerate(self.step.entries) if e.key == "next"), None)
            self.step.put("set_ctx", written, at)

    def _pairs(self, action: Entry) -> list[tuple[str, Node]]:
        held = own(action)
        if action.key == "set" and isinstance(held, Map):
            return [(name, e.value) for name, e in assignments(held)]
        return [(self.names.result_key, sourced(action, self.names.routing))] if action.key == "result" else []

    def _under(self, condition: str, otherwise: Node, value: Node) -> Node:
        try:
            yes, no = (alone(as_expression(plain(v))) for v in (value, otherwise))
            return node(braced(f"{yes} if {condition} else {no}"))
        except NoExpression:
            self.c.refuse(value, "a value with statements, under a condition at step.exit", "make it one {{ expression }}")
            return value

    def leaving(self) -> Taken:
        """Rewrite the transitions at `step.exit`."""
        taken: Taken = []
        for case_entry in self.names.exits:
            if case_entry in self.names.routed:
                continue
            arcs = [arc for action in case_entry.actions if action.key == "next" for arc in arcs_of(self.c, action)]
            if not arcs:
                continue
            for arc in arcs:
                self._in_arcs(arc.value)
            arcs[0].before = [*case_entry.entry.before, *arcs[0].before]
            self.c.place(case_entry.entry, arcs[0])
            taken.append((all_of([f"event.name == '{self.names.done}'", self._condition(case_entry)]), arcs))
        return taken

    def _condition(self, case_entry: CaseEntry) -> str:
        left = case_entry.exit or "true"
        self._check(Scalar(braced(left), line=case_entry.entry.line, col=case_entry.entry.col))
        return in_expression(left, self.names.routing)

    def _in_arcs(self, value: Node) -> None:
        for scalar in templates(value):
            self._check(scalar)
            edit(scalar, self.names.routing)

    def _check(self, scalar: Scalar) -> None:
        for read in reads(scalar.value):
            if read.path[0] in ("response", "error"):
                self.c.refuse(
                    scalar, f"{read.path[0]} at step.exit", "read result instead, or keep the value with set at call.done"
                )
            elif read.path[0] == self.names.iterator and self.names.looped:
                message = f"{read.path[0]} is the loop's element: at step.exit the loop is over and it is not there"
                self.c.warn(scalar, message, "write it into ctx at call.done")

    def route(self, taken: Taken) -> None:
        """Return the step's router: the transitions of its entries, then the structural ones when none of these is taken."""
        step, done = self.step, f"event.name == '{self.names.done}'"
        structural = step.entry("next")
        rest = [] if structural is None else arcs_of(self.c, structural)
        if any(condition == done for condition, _ in taken):
            rest = []  # one of them always is
        ordered = len(taken) <= 1 and all(len(arcs) == 1 for _, arcs in taken) and len(rest) <= 1
        """In sequence, each arc applies if those before it do not fire; otherwise every arc has its complete condition."""
        out = [self._guarded(arc, condition) for condition, arcs in taken for arc in arcs]
        if taken and not ordered:
            otherwise = all_of([done, *(negated(condition.removeprefix(f"{done} and ")) for condition, _ in taken)])
            rest = [self._guarded(arc, otherwise) for arc in rest]
        out += rest
        if structural is not None:
            self.c.place(structural, structural if out else step.entries[0])
        if out:
            if structural is not None and rest and not isinstance(followed(structural.value), Seq):
                structural.eol = ""  # it is placed beside its arc
            step.put("next", router(out, None if ordered or len(out) == 1 else "inclusive"))
        elif structural is not None:
            step.pop("next")

    def _guarded(self, arc: Entry, condition: str) -> Entry:
        target = arc.value
        assert isinstance(target, Map)
        if target.entry("when") is not None:
            self.c.refuse(
                target.entry("when") or arc, '"when" in a target of then.next', 'write the condition in "when" of the entry'
            )
            return arc
        target.put("when", braced(condition), target.index("step") + 1)
        target.compact, target.text = False, None
        return arc
