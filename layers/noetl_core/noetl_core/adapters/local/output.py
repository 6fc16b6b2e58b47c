"""The output of running tasks, in one file for each run beside the store, for other processes that show the execution."""

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
    """`RunningOutput` in `folder`. A process writes the files of the runs that it holds; those of a killed one are not shown."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = name_of()

    def show(self, run: StreamId, tasks: Sequence[RunningTask]) -> bool:
        file = self._folder / f"{run.execution_id}-{sha256(str(run.run_id).encode()).hexdigest()[:16]}.json"
        try:
            if not tasks:
                file.unlink(missing_ok=True)
                return True
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = file.with_suffix(f".{os.getpid()}")
            made.write_text(json.dumps({"process": self._name, "tasks": tasks}))
            made.replace(file)
        except OSError:
            return False  # showing output must not fail a task, even if the disk is full
        return True

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
