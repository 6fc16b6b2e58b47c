"""YAML text -> `Playbook`, or everything that is wrong with it (formal specification 2 and 13).

`parse_playbook` is for running, `check` for validating. Both find every problem at once, with its position.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from noetl_core.dsl.dialect import Edits, rewrite_playbook
from noetl_core.dsl.dialect.variants import rewrite_variants
from noetl_core.dsl.fields.playbook import (
    API_VERSIONS,
    EXECUTOR,
    EXECUTOR_FAILURE,
    MCP_TOOL,
    METADATA,
    OLD_VERSIONS,
    PLAYBOOK_PATH,
    ROOT,
    WORKBOOK,
    WORKBOOK_ENTRY,
    mixed_word,
)
from noetl_core.dsl.inputs import read_workload
from noetl_core.dsl.model import UNSET, Executor, Limits, Playbook, Step, Task
from noetl_core.dsl.reading.diagnostics import MIGRATE, Diagnostic, InvalidPlaybook, suggest
from noetl_core.dsl.reading.load import Node, load
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.references import check_references
from noetl_core.dsl.sections.failures import read_on_failure
from noetl_core.dsl.sections.keychain import read_keychain
from noetl_core.dsl.sections.requirements import read_requirements
from noetl_core.dsl.sections.search import read_search
from noetl_core.dsl.sections.shared_limits import concurrency
from noetl_core.dsl.sections.triggers import read_triggers
from noetl_core.dsl.sections.workbook_uses import graft
from noetl_core.dsl.steps.policy import OfTask, task_policy
from noetl_core.dsl.steps.secret_results import check_readers
from noetl_core.dsl.steps.specs import EXECUTOR_KEYS, handed_down
from noetl_core.dsl.steps.steps import StepScope, step
from noetl_core.dsl.steps.tasks import RawTask, TaskScope, layered, raw_task
from noetl_core.dsl.templates import check_templates

if TYPE_CHECKING:
    from noetl_core.dsl.lint import Called

MAX_PATH: Final = 512
MANY_OBJECTS: Final = 100_000
"""Objects of a pause of the collector that are not worth its scan."""


def digest_of(text: str) -> str:
    """Return the digest by which executions pin a playbook."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def parse_playbook(text: str, source: str = "<string>", *, programs: bool = True, lenient: bool = False) -> Playbook:
    """Return the model of a playbook. Raises `InvalidPlaybook` with all errors and notes; it does not lint. Without `programs`
    the text of programs is not compiled: it was when the playbook was validated, maybe by another Python. `lenient`: tasks of
    other playbooks may be missing (`dsl.sections.workbook_uses`)."""
    with collection_paused():
        r, playbook = read(text, source, programs=programs, lenient=lenient)
        found = r.diagnostics
        del r  # the collector would walk half a million objects of 10,000 steps: an eighth of the time
    if playbook is None:
        raise InvalidPlaybook(_ordered(found))
    return playbook


def check(
    text: str, source: str = "<string>", *, lenient: bool = False, called: Called | None = None
) -> tuple[Playbook | None, list[Diagnostic]]:
    """Return the model (None if there is any error) and all findings, with those of lint, in the order of the text. `lenient` is
    as for `parse_playbook`; `called` finds the playbooks that this one calls."""
    playbook, found, _ = examine(text, source, lenient=lenient, called=called)
    return playbook, found


def examine(
    text: str, source: str = "<string>", *, lenient: bool = False, called: Called | None = None
) -> tuple[Playbook | None, list[Diagnostic], Reader]:
    """Like `check`, and return the reader, which has the nodes of the text and its compiled templates."""
    from noetl_core.dsl.lint import lint, without_ignored  # 20 ms: running does not lint

    with collection_paused():
        r, playbook = read(text, source, lenient=lenient)
        if playbook is not None:
            lint(r, playbook, called)
    return playbook, _ordered(without_ignored(r.diagnostics, text, source)), r


def check_payloads(text: str, called: Called) -> list[Diagnostic]:
    """Return the parts of payloads that playbooks called by a valid one do not take (W532); `called` finds these playbooks."""
    from noetl_core.dsl.lint import payloads, without_ignored  # 20 ms, as above

    with collection_paused():
        r, playbook = read(text, "<string>", programs=False)
        if playbook is not None:
            payloads(r, playbook, called)
    return [found for found in _ordered(without_ignored(r.diagnostics, text, "<string>")) if found.code == "W532"]


def read(text: str, source: str, *, programs: bool = True, lenient: bool = False) -> tuple[Reader, Playbook | None]:
    """Return the reader of a text, with its findings before lint, and the model (None if there is any error)."""
    loaded = load(text, source)
    r = Reader(loaded, source, list(loaded.diagnostics), programs, lenient)
    playbook = None
    if loaded.root is not None:
        if isinstance(loaded.root.value, dict):
            graft(r, loaded.root)
            check_templates(r, loaded.root)
            rewrite_playbook(Edits(r), loaded.root)
            rewrite_variants(r, loaded.root)
            playbook = _playbook(r, loaded.root, text)
        else:
            r.report("E112", loaded.root, f"a playbook must be a mapping, not {r.word(loaded.root)}")
    return r, None if r.failed else playbook


def _ordered(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    return sorted(dict.fromkeys(found), key=lambda d: (d.line, d.col, d.code))


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector while many long-lived objects are created: scanning them took 40% of the time of parsing, 70%
    of that of a layout. Very many become old without a scan, which takes a twentieth."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on and gc.get_count()[0] > MANY_OBJECTS and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        if was_on:
            gc.enable()


def _playbook(r: Reader, root: Node, text: str) -> Playbook | None:
    if root.get("vars") is not None:
        hint = "use workload for inputs, ctx and iter for changing values; or " + MIGRATE
        r.report("E121", (root, "vars"), "a playbook must not have vars at its root", hint)
    entries = r.read(root, ROOT, "the playbook").nodes
    for key in ("apiVersion", "kind", "metadata", "workflow"):
        if key not in entries:
            r.missing(root, key, f"the playbook has no {key}", f"apiVersion: {API_VERSIONS[0]}" if key == "apiVersion" else "")
    _version(r, entries)
    about = r.read(entries.get("metadata"), METADATA, "metadata")
    metadata = about.nodes
    for key in ("name", "path"):
        if "metadata" in entries and key not in metadata and isinstance(entries["metadata"].value, dict):
            r.report("E111", (root, "metadata"), f"metadata has no {key}")
    name, path = about.get("name"), about.get("path")
    if path is not None and (not PLAYBOOK_PATH.match(path) or len(path) > MAX_PATH):
        r.report("E115", metadata["path"], f'"{path[:60]}" cannot be a playbook path', "names separated by /, like team/flow")
    elif path is not None and (word := mixed_word(path)) is not None:
        r.report(
            "E115",
            metadata["path"],
            f'"{path[:60]}" mixes alphabets in the word {ascii(word)[:60]}',
            "use letters of one alphabet",
        )

    tool = about.get("mcp_tool")
    if tool is not None and not MCP_TOOL.match(tool):
        hint = "a letter, then at most 63 letters, digits, _ and -; not noetl_ at the beginning"
        r.report("E115", metadata["mcp_tool"], f'"{tool[:80]}" cannot be the name of a tool', hint)

    executor, scope = _executor(r, entries.get("executor"))
    workbook = _workbook(r, entries.get("workbook"), scope)
    scope.workbook = workbook
    steps = _workflow(r, entries.get("workflow"), scope)
    keychain = read_keychain(r, entries.get("keychain"))
    workload, inputs = read_workload(r, entries.get("workload"))
    if not steps:
        return None
    playbook = Playbook(
        name=name or "",
        path=path or "",
        steps=steps,
        workload=workload,
        executor=executor,
        keychain=keychain,
        workbook={k: _workbook_task(v) for k, v in workbook.items()},
        metadata={k: v.plain() for k, v in metadata.items()},
        inputs=inputs,
        digest=digest_of(text),
    )
    check_references(r, root, playbook)
    check_readers(r, root, playbook)
    return playbook


def _version(r: Reader, entries: dict[str, Node]) -> None:
    version, kind = entries.get("apiVersion"), entries.get("kind")
    if version is not None and version.value not in API_VERSIONS:
        hint = MIGRATE if version.value in OLD_VERSIONS else suggest(str(version.value), API_VERSIONS)
        r.report("E125", version, f'apiVersion "{version.value}" is not supported', hint or f"apiVersion: {API_VERSIONS[0]}")
    if kind is not None and kind.value != "Playbook":
        r.report("E125", kind, f'kind "{kind.value}" is not Playbook', "kind: Playbook")


# --- executor -----------------------------------------------------------------------------------------------------------


def _executor(r: Reader, node: Node | None) -> tuple[Executor, StepScope]:
    """Read `executor` and the settings that steps inherit from it (canonical step spec 5.1)."""
    if node is None:
        return Executor(), StepScope(Executor())
    content = r.read(node, EXECUTOR, "executor")
    spec, policy = content.node("spec"), content.node("spec", "policy")
    extensions = bool(content.get("spec", "extensions"))
    handed = handed_down(r, spec, EXECUTOR_KEYS, "spec of executor", extensions=extensions)
    if policy is not None and policy.get("rules") is not None:
        hint = "write them in spec.policy of a task, or as default in spec.policy.task"
        r.report("E126", (policy, "rules"), "policy of executor has rules: control actions belong to tasks", hint)

    def policy_value(*path: str) -> Any:
        return content.get("spec", "policy", *path)

    result = content.node("spec", "result")
    lifetime = _first(policy_value("lifecycle", "lifetime_s"), content.get("spec", "lifetime_s"))
    executor = Executor(
        kind=content.get("kind"),
        entry_step=content.get("spec", "entry_step"),
        result=UNSET if result is None else result.plain(),
        failure_mode=policy_value("failure", "mode") or EXECUTOR_FAILURE["mode"].default,
        unconditional_on_failure=bool(policy_value("unconditional_on_failure")),
        reference_first=bool(policy_value("results", "reference_first")),
        strict=content.get("spec", "strict"),
        limits=Limits(**{name: value for name in Limits.__match_args__ if (value := policy_value("limits", name)) is not None}),
        lifetime_s=float(lifetime) if lifetime is not None else Executor().lifetime_s,
        timeout_s=_first(policy_value("lifecycle", "timeout_s"), policy_value("defaults", "timeouts", "execution_s")),
        extensions=extensions,
        pool=content.get("spec", "pool") or policy_value("defaults", "resources", "pool") or Executor().pool,
        requirements=read_requirements(r, content.node("spec", "python", "requirements")),
        triggers=read_triggers(r, content.node("spec", "triggers")),
        concurrency=concurrency(r, content.at("spec", "policy", "concurrency"), "executor"),
        priority=_first(policy_value("priority"), Executor().priority),
        on_failure=read_on_failure(r, content.node("spec", "on_failure")),
        search=read_search(r, content.node("spec", "search")),
        spec=handed,
    )
    task_timeout = policy_value("defaults", "timeouts", "task_s")
    scope = StepScope(executor, handed if task_timeout is None else {"timeout_s": task_timeout, **handed})
    scope.step_timeout = policy_value("defaults", "timeouts", "step_s")
    scope.on_unmatched = policy_value("defaults", "on_unmatched")
    r.strict = bool(executor.strict)
    task = content.node("spec", "policy", "task")
    if task is not None:
        scope.policy, scope.rate = _default_policy(r, task, scope)
    return executor, scope


def _default_policy(r: Reader, node: Node, scope: StepScope) -> OfTask:
    jumps: list[tuple[Node, str]] = []
    read = task_policy(r, node, "tasks of executor", scope.on_unmatched, jumps)
    for target, _ in jumps:
        message = "the executor's default task policy cannot jump, because each pipeline has different tasks"
        r.report("E202", target, message, "write it on the task")
    return read


def _first(value: Any, other: Any) -> Any:
    """Return the one of two spellings that was written; the first has precedence."""
    return other if value is None else value


# --- other sections -----------------------------------------------------------------------------------------------------


def _workbook(r: Reader, node: Node | None, scope: StepScope) -> dict[str, RawTask]:
    """Read the workbook: `{tasks: {name: tool}}`, `{name: tool}` or a list of `{name, tool}` (resolution 20)."""
    if node is None or node.value is None:
        return {}
    entries: dict[str, Node] = {}
    if isinstance(node.value, list):
        for i, item in enumerate(node.value):
            body = r.mapping(item, f"workbook entry {i}")
            name = r.name(body.get("name"), "a workbook task")
            if "name" not in body and isinstance(item.value, dict):
                r.report("E111", item, f"workbook entry {i} has no name")
            if name is None:
                continue
            if name in entries:
                r.report("E123", item, f'the workbook has two tasks named "{name}"', "rename one")
            if "tool" in body:
                r.keys(item, WORKBOOK_ENTRY.keys, f'workbook task "{name}"')
            entries[name] = body.get("tool", item)
    else:
        tools = r.mapping(node, "workbook")
        tasks = tools.get("tasks")
        if tasks is not None and tasks.get("kind") is None:
            r.keys(node, WORKBOOK.keys, "workbook")
            tools = r.mapping(tasks, "tasks of workbook")
        entries = {k: v for k, v in tools.items() if not k.startswith("x-")}
    return {k: v for k, tool in entries.items() if (v := _workbook_entry(r, k, tool, scope)) is not None}


def _workbook_entry(r: Reader, name: str, node: Node, scope: StepScope) -> RawTask | None:
    if not isinstance(node.value, dict) or "kind" not in node.value:
        message = (
            f'workbook task "{name}" has no kind'
            if isinstance(node.value, dict)
            else f'workbook task "{name}" must be one tool, not {r.word(node)}'
        )
        other = node.get("type") or node.get("tool")
        hint = f"kind: {other.value}" if other is not None and isinstance(other.value, str) else "kind says which tool runs"
        r.report("E111" if isinstance(node.value, dict) else "E112", node, message, hint)
        return None
    if node.value["kind"].value == "workbook":
        r.report("E114", node.value["kind"], f'workbook task "{name}" cannot run the workbook', "write the tool itself")
        return None
    tasks = TaskScope(f"workbook.{name}", on_unmatched=scope.on_unmatched, extensions=scope.executor.extensions)
    task = raw_task(r, node, name, tasks)
    for target, to in tasks.jumps:
        message = f'a workbook task cannot jump (to "{to}"), because each pipeline has different tasks'
        r.report("E202", target, message, "write the rule where it is used")
    return task


def _workbook_task(raw: RawTask) -> Task:
    return layered(raw, TaskScope(raw.name), raw.node.path)


def _workflow(r: Reader, node: Node | None, scope: StepScope) -> tuple[Step, ...]:
    steps: list[Step] = []
    seen: dict[str, Node] = {}
    if node is not None and isinstance(node.value, list) and not node.value:
        r.report("E112", node, "workflow has no steps", "add a step")
    for i, item in enumerate(r.sequence(node, "workflow")):
        name_node = r.mapping(item, f"step {i}").get("step")
        if name_node is None:
            hint = "step: <name>" if item.get("name") is None else "a step's name is written step: <name>"
            r.missing(item, "step", f"step {i} has no name", hint, checked=False)
            continue
        name = r.name(name_node, "a step")
        if name is None:
            continue
        if name in seen:
            r.report("E122", name_node, f'step "{name}" exists already (line {seen[name].line})', "rename one")
        seen.setdefault(name, name_node)
        steps.append(step(r, item, name, scope))
    return tuple(steps)
