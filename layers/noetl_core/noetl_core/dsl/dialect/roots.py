"""The sections of the root: `spec`, defaults of the workload that name themselves, and entries of the keychain."""

from __future__ import annotations

import re
from typing import Final

from noetl_core.dsl.dialect.edits import Edits
from noetl_core.dsl.fields.keychain import CREDENTIAL, KEYCHAIN
from noetl_core.dsl.reading.load import Node

_DEFAULT: Final = re.compile(r"\{\{\s*([\w.]+)\s*\|\s*(?:default|d)\s*\((.*)\)\s*\}\}\s*\Z", re.DOTALL)
TIMES: Final = ("timeout", "timeout_s", "timeout_seconds")
_ITSELF: Final = re.compile(r"\{\{\s*([\w.]+)\s*\}\}\s*\Z")
_EMPTY_TOO: Final = re.compile(r",\s*(?:boolean\s*=\s*)?[Tt]rue\s*\Z")
_STORED_AS: Final = ("ref", "credential_ref", "credential_name", "key", "secret", "secret_name", "gcs_credential")


def rewrite_root(e: Edits, root: Node) -> None:
    """Rewrite the keys of the root other than the workflow."""
    _spec(e, root)
    workload = root.get("workload")
    if workload is not None and isinstance(workload.value, dict) and _names_itself(workload, ()):
        _defaults(e, e.own(root, "workload"), ())
    entries = root.get("keychain")
    if entries is not None and isinstance(entries.value, list):
        entries = e.own(root, "keychain")
        for n in range(len(entries.value)):
            if isinstance(entries.value[n].value, dict):
                _entry(e, e.own(entries, n))


def _spec(e: Edits, root: Node) -> None:
    """Move the options of the execution that stand below `spec` of the root to the executor."""
    spec = root.get("spec")
    if spec is None or not isinstance(spec.value, dict):
        return
    holder = e.below(root, "executor", (root, "spec"))
    if holder is None:
        return
    if "spec" not in holder.value:
        e.move(root, "spec", holder)
        return
    spec, below = e.own(root, "spec"), e.below(holder, "spec", (root, "spec"))
    for key in list(spec.value) if below is not None else ():
        if below is not None and key in below.value:
            e.r.report("E114", (spec, key), f"the playbook has spec.{key} and executor.spec.{key}", "keep that of the executor")
            e.remove(spec, key)
        elif below is not None:
            e.move(spec, key, below)
    if not spec.value:
        e.remove(root, "spec")


def rewrite_defaults(e: Edits, executor: Node) -> None:
    """Move `defaults` of the executor below its policy, and a time in them to the times of tasks."""
    spec = executor.get("spec")
    for holder, key in ((executor, "executor"), (spec, "spec")):
        if holder is None or not isinstance(holder.value, dict) or holder.get("defaults") is None:
            continue
        holder = executor if key == "executor" else e.own(executor, "spec")
        spec = e.below(executor, "spec", (holder, "defaults"))
        policy = e.below(spec, "policy", (holder, "defaults")) if spec is not None else None
        if policy is not None and "defaults" not in policy.value:
            e.move(holder, "defaults", policy)
    below: Node | None = executor
    for part in ("spec", "policy", "defaults"):
        below = e.own(below, part) if below is not None and below.get(part) is not None else None
    if below is None or not isinstance(below.value, dict):
        return
    key = next((key for key in TIMES if key in below.value), "")
    times = e.below(below, "timeouts", (below, key)) if key else None
    if times is not None and "task_s" not in times.value:
        e.move(below, key, times, "task_s")


def without_results(e: Edits, holder: Node, what: str) -> None:
    """Take `results` out of the policy of a step or a task: where results are kept is an option of the execution."""
    spec = holder.get("spec")
    policy = spec.get("policy") if spec is not None else None
    if policy is None or not isinstance(policy.value, dict) or "results" not in policy.value:
        return
    policy = e.own(e.own(holder, "spec"), "policy")
    e.r.no_effect(policy, ("results",), f"policy of {what}")
    e.remove(policy, "results")
    if not policy.value:
        e.remove(holder.value["spec"], "policy")


def _defaults(e: Edits, holder: Node, path: tuple[str, ...]) -> None:
    """Write a default of `x` that is `x | default(d)` as `d`, and one that is `x` as null: a payload replaces it before it is
    rendered."""
    for key in list(holder.value) if isinstance(holder.value, dict) else ():
        node = holder.value[key]
        if isinstance(node.value, dict):
            if _names_itself(node, (*path, key)):
                _defaults(e, e.own(holder, key), (*path, key))
        elif (inner := _inner_default(node, (*path, key))) is not None:
            e.put(holder, key, f"{{{{ {inner} }}}}" if inner else None, node)


def _names_itself(node: Node, path: tuple[str, ...]) -> bool:
    """Return whether a default of the mapping is to be rewritten."""
    found = ((child, (*path, key)) for key, child in node.value.items())
    return any(
        _names_itself(child, at) if isinstance(child.value, dict) else _inner_default(child, at) is not None
        for child, at in found
    )


def _inner_default(node: Node, path: tuple[str, ...]) -> str | None:
    """Return `d` of the default `x | default(d)` at `path`, if `x` is the path itself; nothing for `x` alone."""
    text = node.value.strip() if isinstance(node.value, str) else ""
    found = _DEFAULT.match(text) or _ITSELF.match(text)
    own = ".".join(path)
    if found is None or found[1] not in ({own, f"workload.{own}"} if len(path) == 1 else {f"workload.{own}"}):
        return None
    if found.re is _ITSELF:
        return ""
    inner = _EMPTY_TOO.sub("", found[2]).strip()
    return inner if inner and _balanced(inner) else None


def _balanced(text: str) -> bool:
    """Return whether `text` is one argument: it closes no bracket that it does not open, and has no comma outside of brackets."""
    depth, quote = 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                return False
        elif char == "," and depth == 0:
            return False
    return depth == 0 and not quote


def _entry(e: Edits, entry: Node) -> None:
    """Rewrite one entry of the keychain: `type` is its kind, and a stored credential is named by `credential`."""
    if "kind" not in entry.value and "type" in entry.value:
        e.move(entry, "type", entry, "kind")
    kind = entry.get("kind")
    if kind is not None and kind.value in ("secrets", "secret") and "map" in entry.value:
        kind = e.put(entry, "kind", "secret_manager", kind)
    block = KEYCHAIN.get(str(kind.value)) if kind is not None else None
    if block is not None and "gcs_credential" not in entry.value:
        return
    own = (block or CREDENTIAL).by_name
    if "credential" in entry.value or "credential" not in own:
        return
    keys = [key for key in _STORED_AS if key in entry.value and (block is None or key not in own)]
    if len(keys) == 1:
        e.move(entry, keys[0], entry, "credential")
