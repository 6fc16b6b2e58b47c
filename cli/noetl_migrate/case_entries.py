"""The entries of a `case`: the event that each answers, its condition, and its actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from noetl_core.dsl.reading.diagnostics import suggest
from noetl_migrate.context import Context, text_of
from noetl_migrate.texts import events_named, expression, reads, residual
from noetl_migrate.tree import Entry, Map, Scalar, Seq, copied, own

EVENTS: Final = ("step.enter", "call.done", "call.error", "step.exit")
ACTIONS: Final = ("call", "retry", "collect", "sink", "set", "result", "next", "fail", "skip")


@dataclass(slots=True)
class CaseEntry:
    """One entry of `case`, as far as it answers one event. Conditions are expressions with the names of the dialect: `when`
    without the parts that the event decides; `true` if nothing remains, None at the other events."""

    label: str
    entry: Entry
    enter: str | None
    ok: str | None
    """The condition at `call.done` after a success."""
    error: str | None
    """The condition at `call.done` or `call.error` after an error."""
    exit: str | None
    actions: list[Entry]

    @property
    def called(self) -> bool:
        return self.ok is not None or self.error is not None

    def does(self, *names: str) -> bool:
        return any(a.key in names for a in self.actions)


def case_entries_of(c: Context, case: Entry) -> list[CaseEntry]:
    """Read a `case` block; refuse invalid entries."""
    items = own(case)
    if not isinstance(items, Seq):
        c.refuse(case, "case must be a list of entries with when and then")
        return []
    return [case_entry for i, item in enumerate(items.entries, 1) for case_entry in _read_item(c, i, item)]


def _read_item(c: Context, number: int, item: Entry) -> list[CaseEntry]:
    entry = own(item)
    if not isinstance(entry, Map) or entry.entry("then") is None:
        c.refuse(item, "an entry of case needs when and then")
        return []
    for e in entry.entries:
        if e.key not in ("when", "then", "desc") and not e.key.startswith("x-"):
            c.refuse(e, f'unknown key "{e.key}" in an entry of case', "it has when and then")
    when = entry.entry("when")
    text = text_of(entry.get("when"))
    condition = None if text is None or "{" not in text else expression(text)
    if when is None or condition is None:
        c.refuse(when or item, '"when" of an entry must be one {{ expression }}')
        return []
    named = [read.path for read in reads(text or "") if read.path[0] == "event"]
    if any(p[:2] != ("event", "name") for p in named):
        c.refuse(when, '"when" reads more of event than event.name', "response and error hold the outcome of the call")
        return []
    unknown = [e for e in events_named(condition) if e not in EVENTS] if named else []
    found = _conditions(condition, bool(named), {read.path[0] for read in reads(text or "")})
    if not any(found[:4]):
        word = unknown[0] if unknown else ""
        hint = suggest(word, EVENTS) or f"the dialect has {', '.join(EVENTS)}"
        c.refuse(when, f'"{word}" is not an event of the case dialect' if word else 'an event is missing in "when"', hint)
        return []
    enter, ok, error, leaving = found
    actions = _actions(c, entry)
    label = f"case_{number}"
    out: list[CaseEntry] = []
    for suffix, at_enter, at_ok, at_error, at_exit in (
        ("enter", enter, None, None, None),
        ("done", None, ok, error, None),
        ("exit", None, None, None, leaving),
    ):
        if at_enter is None and at_ok is None and at_error is None and at_exit is None:
            continue
        mine, at = actions, item
        if out:  # an entry of several events has its nodes and comments once, and copies after that
            mine = [Entry(a.key, copied(a.value), line=a.line, col=a.col) for a in actions]
            at = Entry("", item.value, line=item.line, col=item.col)
            label = f"case_{number}_{suffix}"
        out.append(CaseEntry(label, at, at_enter, at_ok, at_error, at_exit, mine))
    return out


def _conditions(condition: str, named: bool, names: set[str]) -> tuple[str | None, str | None, str | None, str | None]:
    succeeded, failed = {"response": True, "error": False}, {"response": False, "error": True}
    neither = {"response": False, "error": False}
    ok = residual(condition, "call.done", succeeded)
    error = residual(condition, "call.done", failed) or residual(condition, "call.error", failed)
    if not named:
        return (None, ok, error, None) if names & {"response", "error"} else (None, None, None, None)
    return residual(condition, "step.enter", neither), ok, error, residual(condition, "step.exit", neither)


def _actions(c: Context, entry: Map) -> list[Entry]:
    then = entry.entry("then")
    assert then is not None
    body = own(then)
    blocks = list(body.entries) if isinstance(body, Seq) else [then]
    out: list[Entry] = []
    for block in blocks:
        value = own(block)
        if isinstance(value, Scalar) and value.value in ("skip", "fail"):
            out.append(Entry(str(value.value), Scalar(True), line=value.line, col=value.col))
        elif isinstance(value, Map):
            out += value.entries
        else:
            c.refuse(block, '"then" must be a block of actions, or a list of them')
    for action in out:
        if action.key not in ACTIONS and not action.key.startswith("x-"):
            c.refuse(
                action,
                f'"{action.key}" is not an action of the case dialect',
                suggest(action.key, ACTIONS) or f"it has {', '.join(ACTIONS)}",
            )
    return [a for a in out if not a.key.startswith("x-")]
