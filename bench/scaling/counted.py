"""Counts the consumption of executions, steps and iterations, in the units of limits and prices.

`tests/unit/bench/test_scaling.py` counts them again: over the AWS adapters, by partition key, and over the logs of the
benchmark's playbooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LOG_OF_EXECUTION: Final = 1
"""Write units in the log: the first commit."""
LOG_OF_STEP: Final = 3
"""Claim, end, routing."""
DUE: Final = 4
"""Write units on the key of its due items: written at the start, deleted at the end, each with its copy in the local index."""
HEAD: Final = 2
"""Write units of the head itself, on a key of its own."""
RUNNING: Final = 2
"""Write units of the index of heads by status, on a key of `running`: entered at the start, left at the end."""
ENDED: Final = 1
"""The same on a key of the status it ends with."""
BY_PATH: Final = 3
"""Write units of the index of heads by path, on a key of the path: entered, and moved at the end."""
TABLE: Final = DUE + HEAD
"""Write units of an execution in the catalog table itself."""
CATALOG: Final = DUE + HEAD + RUNNING + ENDED + BY_PATH
"""The same with its global indexes, which have partitions of their own."""
QUEUE_REQUESTS: Final = 3
"""Requests of a step to its queue: sent, received, deleted."""
ITERATIONS: Final[Mapping[str, float]] = {"local": 0.056, "distributed": 0.09}
"""Write units of an iteration that takes no time, with its share of the chunk that it is in (of 100 iterations)."""

ADMIT_MS: Final = 30.0
"""An admission: a read, three puts and a send one after the other, and their processor time. Assumed, as the next."""
RECONCILE_MS: Final = 20.0
"""A look of the sweeper at an execution, and the commit it leads to, if any."""
HAND_OVER_MS: Final = 0.8
"""An execution that the sweeper hands to the router: a tenth of a send."""
