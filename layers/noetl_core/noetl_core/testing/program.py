"""Tests of playbooks in Python: `run` plays a playbook and gives an object to make assertions about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from noetl_core.dsl.model import Playbook
from noetl_core.testing.acts import act_of
from noetl_core.testing.clock import START
from noetl_core.testing.play import Played, Scene, play
from noetl_core.values.instants import from_text, in_microseconds


def run(
    playbook: str | Path | Playbook,
    payload: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
    *,
    acts: Iterable[Mapping[str, Any]] = (),
    ctx: Mapping[str, Any] | None = None,
    secrets: Mapping[str, Any] | None = None,
    strict: bool = False,
    now: str | None = None,
    until: str = "",
    trigger: Mapping[str, Any] | None = None,
) -> Played:
    """Play a playbook in virtual time, with scripted tools, and touch nothing outside (docs/testing.md).

    `playbook` and `payload` are as in `noetl_core.run`. `tools` has outcomes by the name of the task, `acts` are the acts from
    outside, both in the form of test files; an outcome may be a function, which gets the inputs of the task by name and
    returns its result, or an outcome. `now` is the instant at which it begins (ISO 8601). With `until` it ends as soon as the
    status is that. `trigger` has the name and the event of the trigger that starts it.

    Raises `AssertionError` for a task that is not scripted and touches the world, a mock that cannot happen, an outcome that
    answers no call, and an act that does not happen; otherwise as `noetl_core.run`.
    """
    scene = Scene(
        playbook,
        payload=payload or {},
        ctx=ctx or {},
        secrets=secrets or {},
        tools=tools or {},
        acts=[act_of(act) for act in acts],
        until=until,
        now=START if now is None else in_microseconds(from_text(now)),
        strict=strict,
        trigger=trigger,
    )
    played = play(scene)
    if wrong := [*_unanswered(played), *_in_vain(played)]:
        played.close()
        raise AssertionError("\n".join(dict.fromkeys(wrong)))
    return played


def _unanswered(played: Played) -> list[str]:
    return [f"task {each.task}: {each.why}; for example tools={{{each.task!r}: ...}}" for each in played.unanswered]


def _in_vain(played: Played) -> list[str]:
    if played.unanswered:
        return []
    unused = [f"outcome {index + 1} of {name} answered no call" for name, index, _ in played.unused()]
    refused = [f"{act}: {why}" for act, why in played.acts.refused]
    return [*unused, *refused, *(f"{act} never happened" for act in played.acts.left)]
