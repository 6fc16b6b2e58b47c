"""Tests playbooks in the process of the caller, in memory and in virtual time, without touching the world (docs/testing.md).

* `program` has `run`, for tests in Python; the fixture `noetl` of pytest calls it.
* `files` reads test files, whose keys `fields` declares and whose names `expectations` checks; `suite` runs their cases and
  `judge` judges them. `coverage` finds the parts of a playbook that the cases reach, `mutants` the conditions that no case
  checks. `recording` turns an execution into a case.
* `play` runs one test: it wires the services of the local runner over a `clock` that jumps, a `runner` whose waits cost
  nothing, a `registry` that answers tasks by their names, and the `acts` of the world outside.
* `outcomes` are scripted answers of tasks, `shapes` refuses those that a kind of task cannot give. `match` compares the observed
values with those that a test expects.
* `simulation` plays a case under faults, such as a killed worker, and finds the calls that are made twice; `races` explains ends
  that depend on the order of arrival. `rehearsal` plays recorded executions with another version of their playbook.
* `contracts` has the tests that adapters of the ports pass.

Nothing here is loaded by `noetl run`, and no Lambda function has it. `run` and `Played` are loaded at their first use.
"""

from importlib import import_module
from typing import Any

__all__ = ["Played", "run"]
_PLACES = {"Played": "play", "run": "program"}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"noetl_core.testing.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
