"""Search attributes of an execution, by which lists are filtered (docs/catalog.md, "Search attributes"). Pure.

They are recorded when the execution starts and whenever a change of ctx changes them, so the head follows from the log.
"""

from __future__ import annotations

from typing import Any, Final

from noetl_core.engine.routing.passes import RoutingPass
from noetl_core.events import control
from noetl_core.expr import TemplateError, is_reference, render

MAX_BYTES: Final = 128
"""The most bytes of a text: it is part of a key of the index."""


def record_search(p: RoutingPass) -> None:
    """Record the attributes if they differ from what is recorded. Raises `NeedValues`."""
    templates = p.playbook.executor.search
    if not templates or not p.evaluates or p.searched == p.state.ctx_version:
        return
    p.searched = p.state.ctx_version
    earlier = dict(p.blanks)
    found: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, template in templates.items():
        try:
            value = render(template, p.scope({}).lenient().unrecorded(), undefined_ok=True)
        except TemplateError as wrong:
            left_out[name] = str(wrong)[:200]
            continue
        if value is None:
            continue  # it has no value yet
        why = _unfit(value)
        if why:
            left_out[name] = why
        else:
            found[name] = value
    p.blanks.clear()  # the values for an attribute may not be known yet
    p.blanks.update(earlier)
    known = p.state.search or {"attributes": {}}
    if p.state.search is None or found != known["attributes"] or left_out != known.get("left_out", {}):
        p.emit(control.SearchAttributesSet, attributes=found, left_out=left_out or None)


def _unfit(value: Any) -> str:
    """Return why a value cannot be an attribute; an empty text if it can."""
    if is_reference(value) or not isinstance(value, str | int | float | bool):
        kind = "large value" if is_reference(value) else type(value).__name__
        return f"it is a {kind}; an attribute is a text, a number or a flag"
    if isinstance(value, str) and (len(value.encode("utf-8", "surrogatepass")) > MAX_BYTES or not value.isprintable()):
        return f"it is longer than {MAX_BYTES} bytes" if value.isprintable() else "it has characters that do not print"
    return "" if value != "" else "it is empty"
