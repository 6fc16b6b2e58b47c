"""A whole playbook: legacy forms are rewritten, the rest stays as it is, and the result is a valid playbook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from noetl_core.dsl.fields.playbook import API_VERSIONS, OLD_VERSIONS
from noetl_core.dsl.parse import check
from noetl_core.dsl.reading.diagnostics import MIGRATE, Diagnostic
from noetl_core.dsl.reading.load import load
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import check_templates
from noetl_migrate.context import HAND, Context, text_of
from noetl_migrate.dialect import from_the_field
from noetl_migrate.evals import rewrite_task
from noetl_migrate.reading import comments, read
from noetl_migrate.steps import is_legacy, legacy_task, rewrite_step, tasks_of
from noetl_migrate.tree import (
    Document,
    Entry,
    Map,
    Node,
    Scalar,
    Seq,
    followed,
    mappings_of,
    node,
    own,
    plain,
    short,
    write_out_aliases,
)
from noetl_migrate.words import tool_words
from noetl_migrate.write import write


@dataclass(frozen=True, slots=True)
class Migrated:
    """`text` is the playbook in canonical form: the same text when there was nothing to do, or when an error in `diagnostics`
    says why it could not be done."""

    text: str
    changed: bool
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)


def migrate(text: str, source: str = "<string>") -> Migrated:
    """Rewrite a playbook of a legacy dialect, or of the dialect of the field. Idempotent: canonical text is returned as it is,
    byte for byte."""
    loaded = load(text, source)
    if loaded.root is None or any(d.severity == "error" for d in loaded.diagnostics):
        return Migrated(text, False, tuple(loaded.diagnostics))
    lines = text.replace("\r\n", "\n")
    document = read(lines) if isinstance(loaded.root.value, dict) else None
    if document is None:
        return Migrated(text, False)
    c = Context(source)
    new = lines
    if _is_legacy(document.root):
        reader = Reader(loaded, source)
        check_templates(reader, loaded.root)
        if reader.failed:
            return Migrated(text, False, tuple(reader.diagnostics))
        _rewrite(c, document)
        if c.refused:
            return Migrated(text, False, _sorted(c))
        write_out_aliases(document.root)
        new = _with_comments(c, document, lines)
    new = _field(c, new)
    if c.refused:
        return Migrated(text, False, _sorted(c))
    if new == lines:
        return Migrated(text, False)
    _, found = check(new, f"{source} (migrated)")
    errors = [_by_hand(d) for d in found if d.severity == "error" and d.code != "E130"]
    if errors:
        return Migrated(text, False, (*_sorted(c), *errors))
    return Migrated(new if "\r\n" not in text else new.replace("\n", "\r\n"), True, _sorted(c))


def _field(c: Context, text: str) -> str:
    """Apply the reader's rewriting to the text. Errors go to `c`."""
    loaded = load(text, c.source)
    document = read(text)
    if loaded.root is None or document is None:
        return text
    changed = _current_version(document.root)
    if not (from_the_field(c, loaded, document.root) or changed) or c.refused:
        return text
    write_out_aliases(document.root)
    return _with_comments(c, document, text)


def _current_version(root: Map) -> bool:
    """Replace the version of an older dialect. Returns whether there was one."""
    entry = root.entry("apiVersion")
    if entry is None or not isinstance(entry.value, Scalar) or entry.value.value not in OLD_VERSIONS:
        return False
    entry.value, entry.raw, root.changed = Scalar(API_VERSIONS[0]), None, True
    return True


def _sorted(c: Context) -> tuple[Diagnostic, ...]:
    return tuple(sorted(set(c.diagnostics), key=lambda d: (d.line, d.col, d.code)))


def _by_hand(d: Diagnostic) -> Diagnostic:
    """Refuse a legacy form that belongs to neither dialect, without the advice to migrate."""
    return replace(d, hint=f"{HAND}: neither dialect has it") if d.hint == MIGRATE else d


# --- legacy features ----------------------------------------------------------------------------------------------------


def _steps(root: Map) -> Iterator[tuple[Entry, Map]]:
    workflow = root.get("workflow")
    for item in workflow.entries if isinstance(workflow, Seq) else ():
        step = followed(item.value)
        if isinstance(step, Map) and step.entry("step"):
            yield item, step


def _is_legacy(root: Map) -> bool:
    if root.entry("vars") or any(is_legacy(step) for _, step in _steps(root)):
        return True
    return any(legacy_task(task) for task in _workbook(root))


def _kinds(root: Map) -> dict[str, str]:
    """Return the kinds of the workbook's tasks by name."""
    book = root.get("workbook")
    named = book.get("tasks") or book if isinstance(book, Map) else book
    out = {}
    for e in named.entries if isinstance(named, Map | Seq) else ():
        held = followed(e.value)
        tool = held.get("tool") or held if isinstance(held, Map) else held
        if isinstance(held, Map) and isinstance(tool, Map):
            out[e.key or str(text_of(held.get("name")))] = str(text_of(tool.get("kind")))
    return out


def _workbook(root: Map) -> Iterator[Map]:
    book = root.get("workbook")
    for mapping in mappings_of(book) if book is not None else ():
        if mapping.entry("kind"):
            yield mapping


def _rewrite(c: Context, document: Document) -> None:
    root = document.root
    root.text = None
    steps = list(_steps(root))
    c.learn(root)
    c.guarded = any(_speaks_eval(step) for _, step in steps)
    c.cased = any(step.entry("case") is not None for _, step in steps)
    c.revisited = _revisited(root, steps)
    c.workbook = _kinds(root)
    _declare(c, root, steps)
    c.rename_variables(root)
    for item, step in steps:
        if is_legacy(step):
            _changed(root, item)
            rewrite_step(c, item)
    c.rename_results(root)
    for task in _workbook(root):
        if legacy_task(task):
            task.text = None
            tool_words(c, task)
            rewrite_task(c, task, parallel=False)
    if root.entry("vars") and not c.refused:
        _root_variables(c, root)
    if not c.refused:
        for _, step in _steps(root):
            _names(step)


def _changed(root: Map, item: Entry) -> None:
    workflow = root.entry("workflow")
    assert workflow is not None
    held = own(workflow)
    assert isinstance(held, Seq)
    held.text = None
    item.raw = None


def _speaks_eval(step: Map) -> bool:
    spec, next_ = step.get("spec"), step.get("next")
    guarded = isinstance(next_, Seq) and any(isinstance(t := followed(e.value), Map) and t.entry("when") for e in next_.entries)
    if step.entry("when") or guarded or (isinstance(spec, Map) and spec.entry("next_mode")):
        return True
    return any(task.entry("eval") for task in tasks_of(step.get("tool")))


def _names(step: Map) -> None:
    """Rewrite `- label: {kind: ...}` to `- name: label` (canonical step spec 7.4)."""
    tool = step.get("tool")
    for item in tool.entries if isinstance(tool, Seq) else ():
        held = followed(item.value)
        keys = [e for e in held.entries if not e.key.startswith("x-")] if isinstance(held, Map) else []
        if len(keys) != 1 or not isinstance(held, Map) or keys[0].key in ("kind", "name"):
            continue
        body = own(keys[0])
        if isinstance(body, Map) and body.entry("kind"):
            body.text, body.changed = None, True
            body.entries.insert(0, Entry("name", node(keys[0].key), keys[0].before, keys[0].eol))
            body.entries += [e for e in held.entries if e is not keys[0]]
            item.value, item.raw = body, None


# --- vars ---------------------------------------------------------------------------------------------------------------


def _declare(c: Context, root: Map, steps: list[tuple[Entry, Map]]) -> None:
    for holder in (root, *(step for _, step in steps)):
        block = holder.get("vars")
        for e in block.entries if isinstance(block, Map) else ():
            c.global_variable(e.key)


def _root_variables(c: Context, root: Map) -> None:
    """Rewrite `vars` at the root to a first step that writes them into ctx."""
    block = root.entry("vars")
    values = own(block) if block is not None else None
    steps = list(_steps(root))
    if block is None or not isinstance(values, Map) or not steps:
        c.refuse(block or root.entries[0], "vars at the root must be a mapping, beside a workflow")
        return
    root.pop("vars")
    for e in values.entries:
        if c.variables[e.key] != e.key:
            values.rename(e, c.variables[e.key])
    values.changed = True
    names = [str(text_of(step.get("step"))) for _, step in steps]
    executor = root.get("executor")
    spec = executor.get("spec") if isinstance(executor, Map) else None
    entry = text_of(spec.get("entry_step")) if isinstance(spec, Map) else None
    entry = entry or ("start" if "start" in names else names[0])
    name = next(n for n in ("begin", "begin_", "begin__", "set_vars") if n not in names)
    task = {
        "name": "set_vars",
        "kind": "noop",
        "spec": {"policy": {"rules": [{"else": {"then": {"do": "continue", "set_ctx": values}}}]}},
    }
    first = Map([Entry("step", node(name)), Entry("tool", node([task])), Entry("next", node({"arcs": [short({"step": entry})]}))])
    workflow = root.get("workflow")
    assert isinstance(workflow, Seq)
    workflow.changed, workflow.text = True, None
    item = Entry("", first, block.before, col=workflow.entries[0].col)
    workflow.entries.insert(0, item)
    if isinstance(spec, Map):
        spec.text = None
        spec.put("entry_step", name)
    elif isinstance(executor, Map):
        executor.text = None
        executor.put("spec", {"entry_step": name})
    else:
        root.put("executor", {"spec": {"entry_step": name}}, root.index("workflow"))
    root.changed = True


def _revisited(root: Map, steps: list[tuple[Entry, Map]]) -> set[str]:
    """Return the steps that may run more than once: several paths lead to them, or to a step before them."""
    ways: Counter[str] = Counter()
    leads: dict[str, set[str]] = {}
    for _, step in steps:
        name = str(text_of(step.get("step")))
        for target in _targets(step):
            ways[target] += 1
            leads.setdefault(name, set()).add(target)
    first = str(text_of(steps[0][1].get("step"))) if steps else ""
    entry = "start" if any(text_of(s.get("step")) == "start" for _, s in steps) else first
    ways[entry] += 1
    out = {name for name, count in ways.items() if count > 1}
    stack = list(out)
    while stack:
        for target in leads.get(stack.pop(), set()) - out:
            out.add(target)
            stack.append(target)
    return out


def _targets(step: Map) -> Iterator[str]:
    for key in ("next", "case"):
        value = step.get(key)
        yield from _target_names(value) if value is not None else ()


def _target_names(value: Node) -> Iterator[str]:
    """Return the steps that are named below `next` or `case`."""
    if isinstance(value, Scalar):
        if isinstance(value.value, str):
            yield value.value
    elif isinstance(value, Seq):
        for e in value.entries:
            yield from _target_names(followed(e.value))
    elif isinstance(value, Map):
        for e in value.entries:
            if e.key == "step":
                yield str(plain(e.value))
            elif e.key in ("next", "then", "arcs"):
                yield from _target_names(followed(e.value))
            elif e.key not in ("when", "args", "desc", "spec"):
                yield from (n for n in _target_names(followed(e.value)) if isinstance(followed(e.value), Map))


# --- comments -----------------------------------------------------------------------------------------------------------


def _with_comments(c: Context, document: Document, before: str) -> str:
    """Return the new text; a comment whose place is gone moves above the part that now contains its subject, otherwise above its
    step or section."""
    new = write(document)
    lost = Counter(text for _, text in comments(before)) - Counter(text for _, text in comments(new))
    if not lost:
        return new
    workflow = document.root.get("workflow")
    written = [*document.root.entries, *(workflow.entries if isinstance(workflow, Seq) else ())]
    holders = [*((e.line, len(before), e) for e in written if e.line or e is document.root.entries[0]), *c.places]
    for line, text in comments(before):
        if lost[text] > 0:
            lost[text] -= 1
            around = [(start, holder) for start, end, holder in holders if start <= line < end]
            _, holder = max(around, key=lambda a: a[0], default=(0, document.root.entries[0]))
            holder.before.append((holder.col, text))
    return write(document)
