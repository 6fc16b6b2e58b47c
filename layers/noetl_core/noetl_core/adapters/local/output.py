"""What running tasks have written, in a file for each run beside the store: other processes that show the execution read it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from noetl_core.adapters.local.processes import has_ended, name_of
from noetl_core.engine.records import StreamId
from noetl_core.ports import RunningTask


class FileRunningOutput:
    """The files of `folder`. A process writes them for the runs that it holds; what a killed one leaves is not shown."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = name_of()

    def show(self, run: StreamId, tasks: Sequence[RunningTask]) -> None:
        file = self._folder / f"{run.execution_id}-{sha256(str(run.run_id).encode()).hexdigest()[:16]}.json"
        try:
            if not tasks:
                file.unlink(missing_ok=True)
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = file.with_suffix(f".{os.getpid()}")
            made.write_text(json.dumps({"process": self._name, "tasks": tasks}))
            made.replace(file)
        except OSError:
            return  # a full disk stops no task for the sake of what is only looked at

    def of(self, execution_id: str) -> list[RunningTask]:
        found: list[RunningTask] = []
        for file in sorted(self._folder.glob(f"{execution_id}-*.json")):
            try:
                held = json.loads(file.read_text())
            except (OSError, ValueError):
                continue  # it has ended meanwhile
            if has_ended(held["process"]):
                file.unlink(missing_ok=True)
            else:
                found += held["tasks"]
        return sorted(found, key=lambda task: task["started_at"])
