"""`executor.spec.search`: attributes by which executions are listed (docs/catalog.md, "Search attributes").

The control plane evaluates them from the workload and ctx.
"""

from __future__ import annotations

import re
from typing import Any, Final

from noetl_core.dsl.fields.kind import words
from noetl_core.dsl.reading.load import Node
from noetl_core.dsl.reading.reader import Reader
from noetl_core.dsl.templates import scalars_below

MOST: Final = 8
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
ELSEWHERE: Final = words("iter args steps event outcome callback _prev _task _attempt _outcome")
"""Names that have no value where attributes are evaluated."""
_WHAT: Final = "search of executor"


def read_search(r: Reader, node: Node | None) -> dict[str, Any]:
    """Return the attributes by name; invalid ones are reported."""
    if node is None:
        return {}
    entries = r.mapping(node, _WHAT)
    if len(entries) > MOST:
        r.report("E124", node, f"{_WHAT} has {len(entries)} attributes", f"at most {MOST}: each is written beside the log")
    for name, value in entries.items():
        if not NAME.match(name):
            r.report("E115", value, f'"{name[:60]}" cannot be a search attribute', "a-z, 0-9 and _, a letter first, at most 32")
        elif isinstance(value.value, dict | list) or value.value is None:
            r.report("E112", value, f'search attribute "{name}" must be a value or a template, not {r.word(value)}')
        for scalar in scalars_below(value):
            for read in r.reads.get(scalar.value, ()):
                if read.path[0] in ELSEWHERE:
                    hint = "search attributes read only workload, ctx, trigger and execution_id"
                    r.report("E208", scalar, f"{read.path[0]} in {_WHAT}", hint)
    return {name: value.plain() for name, value in entries.items()}
