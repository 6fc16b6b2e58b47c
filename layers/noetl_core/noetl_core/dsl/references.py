"""Names that must exist: arc targets, the entry step; and secrets in places that the control plane evaluates (E2xx)."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_core.dsl.model import Playbook
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import scalars_below, template_scalars
from noetl_core.expr import Read


def check_references(r: Reader, root: Node, playbook: Playbook) -> None:
    _arcs(r, root, playbook)
    _entry(r, root, playbook)
    _results_of_tasks(r, root, playbook)
    if any(read.path[0] == "keychain" for reads in r.reads.values() for read in reads):
        _secrets(r, root)
        _credentials(r, root, playbook)


def _steps(root: Node) -> Iterator[Node]:
    workflow = root.get("workflow")
    if workflow is not None and isinstance(workflow.value, list):
        yield from (s for s in workflow.value if isinstance(s.value, dict))


def _arcs(r: Reader, root: Node, playbook: Playbook) -> None:
    for step in _steps(root):
        router = step.get("next")
        arcs = router.get("arcs") if router is not None else None
        for arc in arcs.value if arcs is not None and isinstance(arcs.value, list) else ():
            target = arc.get("step")
            if (
                target is None
                or not isinstance(target.value, str)
                or not target.value.strip()
                or target.value in playbook.by_name
            ):
                continue
            hint = suggest(target.value, playbook.by_name) or "add the step, or remove the arc"
            r.report("E201", target, f'arc target "{target.value}" is not a step', hint)


def _results_of_tasks(r: Reader, root: Node, playbook: Playbook) -> None:
    """Report `steps.<name>.results.<task>`: other dialects keep it, this one does not."""
    if not any(read.path[0] == "steps" and "results" in read.path[2:3] for reads in r.reads.values() for read in reads):
        return
    for scalar in template_scalars(root):
        for read in r.reads.get(scalar.value, ()):
            if read.path[0] == "steps" and "results" in read.path[2:3] and read.path[1] in playbook.by_name:
                not_kept(r, scalar, read, read.path[1], "".join(read.path[3:4]))


def not_kept(r: Reader, scalar: Node, read: Read, step: str, task: str) -> None:
    """Report a template that reads the result of an earlier step's task: a step keeps only the result of its last task."""
    kept = f'no result of its task "{task}"' if task else "only one result"
    message = f'step "{step}" keeps {kept}: steps.{step}.result is the result of its last task'
    hint = f"write set_ctx in that task, or let the last task return it; a field called results is steps.{step}.result.results"
    r.report_at("E207", _place(r, scalar, read), scalar.path, message, hint)


def twice_the_result(r: Reader, scalar: Node, read: Read) -> None:
    """Report `step.result`: the bare name of a step is its result already (resolution 14), which seldom has a field of that
    name."""
    step, rest = read.path[0], ".".join(read.path[1:])
    message = f'"{step}" alone is the result of step "{step}", so {step}.result means a field called result in it'
    r.report_at(
        "W515", _place(r, scalar, read), scalar.path, message, f"write steps.{step}.{rest}, or {step}.{rest[7:]}".rstrip(".")
    )


def _place(r: Reader, scalar: Node, read: Read) -> tuple[int, int]:
    return (scalar.line, scalar.col) if scalar.rewritten else r.loaded.position(scalar, read.line, read.column)


def _entry(r: Reader, root: Node, playbook: Playbook) -> None:
    name = playbook.executor.entry_step
    if name is None or name in playbook.by_name:
        return
    at = root.value["executor"].value["spec"].value["entry_step"]
    r.report("E203", at, f'entry_step "{name}" is not a step', suggest(name, playbook.by_name))


def _control_plane(root: Node) -> Iterator[tuple[Node, str]]:
    """Yield the places that the control plane evaluates or writes into the log."""
    executor = root.get("executor")
    spec = executor.get("spec") if executor is not None else None
    if spec is not None and spec.get("result") is not None:
        yield spec.value["result"], "the execution's result"
    if spec is not None and spec.get("search") is not None:
        yield spec.value["search"], "a search attribute"
    for step in _steps(root):
        spec = step.get("spec")
        policy = spec.get("policy") if spec is not None else None
        if policy is not None and policy.get("admit") is not None:
            yield policy.value["admit"], "admission"
        for key in ("next", "args", "input", "set_ctx", "set"):
            if step.get(key) is not None:
                yield step.value[key], "an arc" if key == "next" else f"{key} of a step"
        loop = step.get("loop")
        while loop is not None:
            if loop.get("in") is not None:
                yield loop.value["in"], "loop.in"
            loop = loop.get("loop")


def _paths(r: Reader, node: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
    for scalar in scalars_below(node):
        yield from ((scalar, read.path) for read in r.reads.get(scalar.value, ()))


def _secrets(r: Reader, root: Node) -> None:
    for place, what in _control_plane(root):
        for scalar, path in _paths(r, place):
            if path[0] == "keychain":
                message = f"{'.'.join(path)} in {what}: the control plane holds no secrets"
                r.report("E205", scalar, message, "read the credential in a task")


def _credentials(r: Reader, root: Node, playbook: Playbook) -> None:
    declared = {entry.name for entry in playbook.keychain}
    for scalar in template_scalars(root):
        if "keychain" not in scalar.value:
            continue
        for _, path in _paths(r, scalar):
            if path[0] == "keychain" and len(path) > 1 and path[1] not in declared:
                hint = suggest(path[1], declared) or f"keychain: [{{name: {path[1]}, kind: ...}}]"
                r.report("E206", scalar, f'the keychain declares no "{path[1]}"', hint)
