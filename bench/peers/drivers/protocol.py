"""Implements the protocol of drivers: one line of JSON when the driver is ready, then for each requested case one line with its
seconds.

Of the standard library alone, because every peer's own Python runs it. What libraries print goes to the driver's stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

Ask = Mapping[str, Any]
"""`case`, `steps`, `items`, `in_flight`, `executions`, `url`: what is to be done, and how much of it."""


class WrongResult(Exception):
    """A case came to another result than its work has: its time is worth nothing."""


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise WrongResult(f"{str(found)[:200]} instead of {str(wanted)[:200]}")


def serve(about: Mapping[str, str], cases: Mapping[str, Callable[[Ask], float]]) -> None:
    """Answer until stdin ends. `about` has versions and settings as they are found, not as they were asked for."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    print(json.dumps({"ready": dict(about), "cases": list(cases)}), file=out)
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            answer: dict[str, object] = {"seconds": cases[ask["case"]](ask)}
        except Exception as error:  # an error of a peer, whatever it is: report it, and try the next case
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(answer), file=out)
