"""Urgent lines for followers of an execution: it waits for an answer, or a failed task will be retried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from noetl_cli.display.execution_output import answer
from noetl_cli.errors import Exit
from noetl_core.values.instants import from_text

if TYPE_CHECKING:
    from pathlib import Path

    from noetl_cli.backends.backend import Backend
    from noetl_core.dsl.model import Playbook

WORTH_SAYING_S: Final = 2.0
"""Shorter delays are not reported."""
ANSWERED: Final = ("callback", "signal")


class Notices:
    """Lines made from new envelopes, each once."""

    def __init__(self, where: Backend, execution_id: str, places: Mapping[tuple[str, str], str] | None = None) -> None:
        """`places`: the position of each task, by step and task, as far as known."""
        self._where, self._execution_id = where, execution_id
        self._places = places or {}
        self._reported_waits: set[str] = set()

    def read(self, envelopes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Yield a line for each pending retry, and for each wait that needs an answer."""
        for e in envelopes:
            if e["name"] == "TaskRetried" and e["data"]["delay"] >= WORTH_SAYING_S:
                yield self._place(e.get("step"), e.get("task")) + _retry(e)
            elif e["name"] == "StepSuspended":
                yield from self._waits(e)

    def _waits(self, e: Mapping[str, Any]) -> Iterator[str]:
        waits = [w for w in e["data"]["waits"] if w["kind"] in ANSWERED and w["wait_id"] not in self._reported_waits]
        tokens = self._tokens() if any(w["kind"] == "callback" for w in waits) else {}
        for wait in waits:
            self._reported_waits.add(wait["wait_id"])
            about = f" ({wait['description']})" if wait.get("description") else ""
            what = "an answer" if wait["kind"] == "callback" else f"the signal {wait.get('signal')}"
            place = self._place(e.get("step"), wait.get("task"))
            yield f"{place}{e.get('step')}: waits for {what}{about}; the run continues with the answer"
            token = tokens.get(wait["wait_id"])
            how = answer(self._execution_id, {**wait, "token": token}, self._where.name)
            if how is not None:
                yield f"  answer it: {how}"

    def _place(self, step: Any, task: Any) -> str:
        place = self._places.get((step, task))
        return f"{place} " if place else ""

    def _tokens(self) -> dict[str, str]:
        try:
            found = self._where.api.callbacks(self._execution_id)["callbacks"]
        except Exit:  # without the right to read tokens, the line says where they are shown
            return {}
        return {each["wait_id"]: each["token"] for each in found}


def places(playbook: Playbook, file: Path) -> dict[tuple[str, str], str]:
    """Return the positions of the tasks of a file."""
    return {(step.name, task.name): f"{file}:{task.line}" for step in playbook.steps for task in step.tasks if task.line}


def _retry(e: Mapping[str, Any]) -> str:
    data = e["data"]
    at = from_text(e["timestamp"]) + timedelta(seconds=data["delay"])
    error = data.get("error") or {}
    cause = f": {error.get('kind')}: {error.get('message')}" if error else ""
    path = f" @{'.'.join(map(str, e['iteration']))}" if e.get("iteration") else ""
    attempt = e.get("attempt", 1)
    when = f"{at:%H:%M:%S}Z, in {data['delay']:g} s"
    return f"{e.get('step')}: attempt {attempt} of {e.get('task')}{path} failed{cause}; attempt {attempt + 1} begins at {when}"
