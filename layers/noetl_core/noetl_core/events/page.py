"""The page docs/events.md, made from the table and the payload types: `python -m noetl_core.events.page docs/events.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from inspect import cleandoc
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from noetl_core.events import control, limits, runs, waiting
from noetl_core.events.schema import SHAPES, about, is_shape, keys_of, payload_schema
from noetl_core.events.table import EVENTS, EventType
from noetl_core.events.upcasts import UPCASTS

_INTRO = """\
# Events

This page lists the events in the log of an execution. It is generated from the code that writes and reads the log. The API's
OpenAPI document describes the envelope that readers see, and `noetl events` shows it.

The control stream of an execution holds the decisions of the control plane. Each step run, and each chunk of a distributed loop,
has a stream of its own, which its worker writes. A *commit* is a list of events that is written atomically. A *boundary* is an
event that ends a worker's part of a run. It wakes the router, which consumes the boundary in a commit of the control stream
(`BoundaryRouted`). See [architecture](architecture.md).

| column | meaning |
|---|---|
| event, type | the name of the event, and its dotted form (`event_type`); filters accept either |
| entity, status | these keys of the envelope; the status is `error` if the payload contains an error |
| step run | what the event does to its run (opens, claims, suspends, releases or ends it); *boundary* if it wakes the router |
| since | the first version of the log's readers that knows the event in its present form |

Envelopes show the keys `run`, `step`, `task`, `attempt` and `path` of a payload as keys of their own: `run` as `step_run_id` or
`task_run_id`, `path` as `iteration`, and the others under the same names. Times are microseconds since the epoch (UTC). A key is
always present unless it is marked as optional.
"""


_STREAMS = (("The control stream", (control, waiting)), ("The control stream: limits", (limits,)), ("Run streams", (runs,)))


def page() -> str:
    """Return the text of docs/events.md."""
    parts = [_INTRO]
    for title, modules in _STREAMS:
        rows = [(event, payload) for event in EVENTS.values() if (payload := _payload(event, modules)) is not None]
        parts.append(f"## {title}\n\n{cleandoc(modules[0].__doc__ or '').splitlines()[0]}\n")
        parts.append("| event | type | entity | status | step run | since |\n|---|---|---|---|---|---|")
        parts += [_line(event, payload) for event, payload in rows]
        parts += [_section(event.name, payload) for event, payload in rows]
    reached = _reached()
    used = [
        kind for module in SHAPES for name, kind in vars(module).items() if name in reached and kind.__module__ == module.__name__
    ]
    parts.append("\n## Shapes\n\nThis section describes the mappings that payloads contain.")
    parts += [_section(kind.__name__, kind) for kind in used]
    parts.append(
        "\n## Older logs\n\nEvents of older logs that have another form are converted to the form above when they are read.\n"
    )
    parts.append("| event | of version | conversion |\n|---|---|---|")
    parts += [f"| `{name}` | {version} | `{f.__name__}`: {about(f)} |" for (name, version), f in sorted(UPCASTS.items())]
    return "\n".join(parts) + "\n"


def _reached() -> set[str]:
    """Return the shapes that payloads contain."""
    found: set[str] = set()
    for event in EVENTS.values():
        for payload in (event.control, event.run):
            found |= payload_schema(payload)["$defs"].keys() if payload is not None else set()
    return found


def _payload(event: EventType, modules: Iterable[ModuleType]) -> type | None:
    names = {module.__name__ for module in modules}
    return next((p for p in (event.control, event.run) if p is not None and p.__module__ in names), None)


def _line(event: EventType, payload: type) -> str:
    of_run: list[str] = [event.of_run] if event.of_run else []
    if event.wakes and payload is event.run:
        of_run.append("boundary")
    link = f"[{event.name}](#{_anchor(payload)})"
    return f"| {link} | `{event.event_type}` | {event.entity} | {event.status} | {', '.join(of_run)} | {event.version} |"


def _anchor(kind: type) -> str:
    return _heading(kind).lower().replace(" ", "-").replace("(", "").replace(")", "")


def _heading(kind: type) -> str:
    twice = hasattr(control, kind.__name__) and hasattr(runs, kind.__name__)
    return f"{kind.__name__} (of a run stream)" if twice and kind.__module__ == runs.__name__ else kind.__name__


def _section(name: str, kind: type) -> str:
    lines = [f"\n### {_heading(kind)}\n\n{about(kind)}"]
    keys = keys_of(kind)
    if keys:
        lines.append("\n| key | type | |\n|---|---|---|")
        for key in keys:
            words = [*([] if key.required else ["optional"]), *([key.text] if key.text else [])]
            lines.append(f"| `{key.name}` | {_words(key.type)} | {'. '.join(words)} |")
    return "\n".join(lines)


_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    NoneType: "null",
    Any: "any",
}


def _words(hint: Any) -> str:
    if hint in _WORDS:
        return _WORDS[hint]
    if is_shape(hint):
        return f"[{hint.__name__}](#{_anchor(hint)})"
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin in (UnionType, Union):
        # `typing` caches unions, so parts come in the order in which any module first wrote them
        return " or ".join(_words(part) for part in sorted(args, key=lambda part: (part is NoneType, _words(part))))
    if origin is dict:
        return "mapping" if args[1] is Any else f"mapping of names to {_words(args[1])}"
    if origin is tuple:
        return f"pair of {_words(args[0])} and {_words(args[1])}"
    return f"list of {_words(args[0])}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
