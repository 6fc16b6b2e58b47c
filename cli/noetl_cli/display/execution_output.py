"""Prints an execution for people: its result, its status and the causes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noetl_cli.backends.backend import Backend
from noetl_cli.display import explain, output
from noetl_cli.display.sources import Sources
from noetl_cli.errors import Exit
from noetl_cli.terminal import visible
from noetl_core.engine.statuses import TERMINAL


def print_execution(where: Backend, summary: Mapping[str, Any], file: Path | None = None, *, steps: bool = False) -> None:
    """Print an execution. With `steps` (for `noetl show`), its status and causes come first."""
    if not steps:
        output.result(summary["result"])
        print()
    print(output.headline(summary))
    tolerated = _why(where, summary, Sources(file))
    if steps:
        output.authors(summary)
    output.surroundings(summary)
    if steps:
        print()
        output.steps(summary)
        if summary["result"] is not None:
            print()
            output.result(summary["result"])
    print(output.looks(summary, where.name, shown=steps, tolerated=tolerated))


def _why(where: Backend, summary: Mapping[str, Any], sources: Sources) -> list[str]:
    """Print why an execution ended as it did; return the steps that succeeded with failed iterations."""
    try:
        found = where.api.why(summary["execution_id"])
    except Exit as end:  # the log cannot be read, or the stack is older: the summary suffices
        _without(summary)
        if summary["status"] not in ("completed", "failed", "stuck"):
            print(output.styled(f"(why: {end.message})", "dim"))
        return []
    explain.causes(found, sources, (summary.get("error") or {}).get("details"))
    if not found["causes"]:
        _without(summary, has_status=any(fact["fact"] == "status" for fact in found["facts"]))
    named = {wait["wait_id"] for wait in summary.get("waiting_for", ()) if wait["kind"] == "limit"}
    facts = [fact for fact in found["facts"] if (fact.get("wait") or {}).get("wait_id") not in named]
    explain.facts({**found, "facts": facts}, sources)
    _answers(where, summary)
    return [fact["step"] for fact in found["facts"] if fact["fact"] == "iterations" and "step" in fact]


def _without(summary: Mapping[str, Any], *, has_status: bool = False) -> None:
    """Print the error in the summary itself."""
    error = summary.get("error")
    if error and not has_status:
        print(explain.headline(error))
        output.error_details(error.get("details"))
    if summary.get("reason") and not has_status:
        print(visible(summary["reason"]))


def _answers(where: Backend, summary: Mapping[str, Any]) -> None:
    """Print how to answer the waits of an execution."""
    if summary["status"] in TERMINAL:
        return
    for wait in summary.get("waiting_for", ()):
        if wait["kind"] == "limit":
            print(output.limited(wait))
        if (how := answer(summary["execution_id"], wait, where.name)) is not None:
            print(f"  answer it: {how}")


def answer(execution_id: str, wait: Mapping[str, Any], on: str) -> str | None:
    """Return the command that answers a wait; None if people do not answer it."""
    on = "" if on == "local" else f" --on {on}"
    if wait["kind"] == "callback" and wait.get("token"):
        return f"noetl callback {wait['token']} --data '{{...}}'{on}"
    if wait["kind"] == "callback":
        return f"noetl show {execution_id}{on} (shows the token to callers who may answer)"
    if wait["kind"] == "signal":
        return f"noetl signal {execution_id} {wait['signal']} --data '{{...}}'{on}"
    return None
