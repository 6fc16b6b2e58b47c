"""Carries out the acts of a test, which come from outside: signals, answers to callbacks, and operators.

Acts happen in their order. The moment of an act has come when its execution can take it: a signal or an answer when a task waits
for it, `resume` when the execution is paused, others when nothing else can continue before a later time, or when the status is
`at`. With
`after` it happens so much later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from noetl_core.api.requests import Api
from noetl_core.dsl.numbers import WAIT, duration
from noetl_core.testing.runner import VirtualRunner
from noetl_core.values.instants import SECOND
from noetl_core.views.executions.executions import status_of

ACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "signal": ("data",),
    "callback": ("data", "error", "heartbeat"),
    "cancel": ("reason", "compensate"),
    "pause": (),
    "resume": (),
}
"""The acts, with the keys that each takes besides `at` and `after`."""


@dataclass(frozen=True)
class Act:
    """One act: its kind and its data. `at` is a status, `after_s` the seconds after its moment."""

    what: str
    data: Mapping[str, Any] = field(default_factory=dict)
    at: str = ""
    after_s: float = 0
    line: int = 0

    def __str__(self) -> str:
        name = self.data.get("name") or self.data.get("task") or ""
        return f"{self.what} {name}".rstrip()


def act_of(entry: Mapping[str, Any], line: int = 0) -> Act:
    """Return the act of a mapping in the form of test files, such as `{signal: go, data: 1, after: 5m}`. Raises `ValueError`."""
    kinds = [kind for kind in ACTS if kind in entry]
    if len(kinds) != 1:
        raise ValueError(f"an act has exactly one of {', '.join(ACTS)}")
    kind = kinds[0]
    if unknown := sorted(entry.keys() - {kind, "at", "after", *ACTS[kind]}):
        raise ValueError(f"{unknown[0]} does not belong to {kind}: it takes {', '.join((*ACTS[kind], 'at', 'after'))}")
    data = {key: entry[key] for key in ACTS[kind] if key in entry}
    if kind in ("signal", "callback"):
        data["name" if kind == "signal" else "task"] = entry[kind]
    return Act(kind, data, entry.get("at", ""), duration(entry.get("after", 0), WAIT, "after"), line)


class Acts:
    """Carries out the acts of a test (`runner.Outside`)."""

    def __init__(self, acts: Sequence[Act], api: Api, runner: VirtualRunner, root: str) -> None:
        self.left = list(acts)
        self._api, self._runner, self._root = api, runner, root
        self.refused: list[tuple[Act, str]] = []
        """Acts that the execution did not take, and why."""
        self._moment: int | None = None
        """The instant at which the next act could happen (microseconds); None if it cannot yet."""

    def act(self, *, early: bool = False) -> bool:
        if not self.left or (early and not self._may_be_early(self.left[0])):
            return False
        act, now = self.left[0], self._runner.now()
        place = self._place(act)
        if place is None:
            self._moment = None
            return False
        if self._moment is None:
            self._moment = now
        if now < self._moment + int(act.after_s * SECOND):
            return False
        del self.left[0]
        try:
            self._do(act, place)
        except Exception as error:  # a refusal: the test fails, and continues
            self.refused.append((act, str(error)))
        self._moment = None
        return True

    def _may_be_early(self, act: Act) -> bool:
        return act.what in ("signal", "callback") and not act.at and not act.after_s

    def is_over(self) -> bool:
        return not self.left

    def next_at(self) -> int | None:
        return None if self._moment is None else self._moment + int(self.left[0].after_s * SECOND)

    def _place(self, act: Act) -> tuple[str, str] | None:
        """Return the execution, and the wait, that can take the act; None if there is none now."""
        state = self._runner.state(self._root)
        if act.what == "callback" or (act.what == "signal" and not act.at):
            return self._wait(act) if not act.at or status_of(state) == act.at else None
        needed = act.at or ("paused" if act.what == "resume" else "")
        fits = not state.finished and (not needed or status_of(state) == needed)
        return (self._root, "") if fits else None

    def _wait(self, act: Act) -> tuple[str, str] | None:
        for execution_id in self._runner.executions:
            for run in self._runner.state(execution_id).runs.values():
                for wait in run.waits:
                    names = (wait.get("task"), f"{run.step}.{wait.get('task')}", run.step)
                    if act.what == "signal" and wait.get("signal") == act.data["name"] and "callback" not in wait:
                        return execution_id, wait["wait_id"]
                    if act.what == "callback" and "callback" in wait and act.data.get("task", run.step) in names:
                        return execution_id, wait["wait_id"]
        return None

    def _do(self, act: Act, place: tuple[str, str]) -> None:
        execution_id, wait_id = place
        match act.what:
            case "signal":
                self._api.signal(execution_id, act.data["name"], act.data.get("data"))
            case "callback" if act.data.get("heartbeat"):
                self._api.wait_heartbeat(execution_id, wait_id)
            case "callback":
                self._api.answer_wait(execution_id, wait_id, act.data.get("data"), act.data.get("error"))
            case "cancel":
                self._api.cancel(execution_id, **act.data)
            case "pause":
                self._api.pause(execution_id)
            case "resume":
                self._api.resume(execution_id)
