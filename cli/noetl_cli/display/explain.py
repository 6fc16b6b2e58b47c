"""Prints causes and facts (`why`) for people: the cause first, each with its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from noetl_cli.display.output import error_details, styled
from noetl_cli.display.sources import Sources
from noetl_cli.terminal import shortened, visible

if TYPE_CHECKING:
    from noetl_core.api.shapes.why import Cause, Fact, Why

MESSAGE: Final = 1_000
"""The most characters of a message that are shown."""
LAST_LINES: Final = 10
"""The most lines of a task's output that are shown with its error."""
FRAMES: Final = 8
"""The most lines of a traceback that are shown: the innermost."""


def causes(found: Why, sources: Sources, details: Any = None) -> None:
    """Print the errors that led to a failure, the root first. `details` are those of the last one, if they are stored."""
    own = _playbook_name(found, sources)
    for number, cause in enumerate(found["causes"]):
        name = sources.name(cause["playbook"]) if "playbook" in cause else own
        where = sources.place(name, cause) + " " if "line" in cause else ""
        then = "then " if number else ""
        print(f"{then}{styled(where, 'bold')}{headline(cause)}")
        if "hint" in cause:
            print(f"  {visible(cause['hint'])}")
        _traceback(cause, name, sources)
        _output(cause)
        last = number == len(found["causes"]) - 1
        error_details(cause.get("details", details if last else None))


def headline(cause: Mapping[str, Any]) -> str:
    """Return `python in step start in task share: ZeroDivisionError: division by zero`."""
    where = "".join(f" in {key} {cause[key]}" for key in ("step", "task") if cause.get(key))
    where += f" @{'.'.join(map(str, cause['iteration']))}" if cause.get("iteration") else ""
    where += f" (item {visible(cause['item'])})" if "item" in cause else ""
    where += f" after {cause['attempts']} attempts" if cause.get("attempts", 1) > 1 else ""
    child = f" of execution {cause['execution_id']}" if cause.get("execution_id") else ""
    return f"{styled(visible(cause['kind']), 'red')}{where}{child}: {_message(cause['message'])}"


def _message(text: str) -> str:
    """Return the message of an error, with an ellipsis if it is shortened."""
    more = f"… ({len(text):,} characters: --output json has all)" if len(text) > MESSAGE else ""
    return visible(text[:MESSAGE]) + styled(more, "dim")


def facts(found: Why, sources: Sources) -> None:
    """Print facts, each with the facts that led to it below."""
    own = _playbook_name(found, sources)
    for fact in found["facts"]:
        print(f"{'  ' * fact['depth']}{line(fact, own, sources)}")
    if found["more"]:
        print(styled(f"... and {found['more']} visits before these", "dim"))
    if count := found.get("partial", {}).get("unevaluated"):
        them = (
            "a condition is not evaluated again: its state is outside"
            if count == 1
            else f"{count} conditions are not evaluated again: their states are outside"
        )
        print(styled(f"... {them} the parts of the long log that were read", "dim"))


def line(fact: Fact, playbook: str, sources: Sources) -> str:
    """Return a fact as a line."""
    where = f"{sources.place(playbook, fact)} " if "line" in fact else ""
    return f"{styled(where, 'bold')}{visible(fact['text'])}"


def _playbook_name(found: Why, sources: Sources) -> str:
    playbook = found["playbook"]
    return sources.name(playbook["path"], playbook["digest"], playbook["version"])


def _traceback(cause: Cause, name: str, sources: Sources) -> None:
    frames = cause.get("traceback", [])
    if len(frames) > FRAMES:
        print(styled(f"  ... {len(frames) - FRAMES} lines further out", "dim"))
    for frame in frames[-FRAMES:]:
        place = sources.place(name, {"line": frame["line"]}) if "line" in frame else frame.get("file", "")
        print(visible(f"  {place} in {frame['name']}: {frame['source']}"))


def _output(cause: Cause) -> None:
    for stream, text, mark in (("stdout", cause.get("stdout", ""), "  "), ("stderr", cause.get("stderr", ""), "! ")):
        lines = text.splitlines()
        if lines:
            print(
                styled(
                    "  its last lines on standard output:" if stream == "stdout" else "  its last lines on standard error:", "dim"
                )
            )
        for line in lines[-LAST_LINES:]:
            print(styled(f"  {mark}{shortened(visible(line), MESSAGE)}", "red" if stream == "stderr" else ""))
