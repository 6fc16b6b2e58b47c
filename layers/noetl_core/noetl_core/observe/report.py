"""Writes an HTML page about an execution: self-contained, without scripts, light and dark (docs/looking.md, "A report").

It is made from answers of the API, so it shows only what its reader may see. Everything in it is escaped.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from noetl_core.observe.counts import iterations
from noetl_core.observe.drawing.svg import Drawn, steps_of

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import Execution
    from noetl_core.api.shapes.views import Cost, Span, Timeline
    from noetl_core.api.shapes.why import Cause, Why

CELL, BLOCK = 120, 4_000
"""Maximum number of characters of a value shown in a table, and by itself."""
ROWS: Final = 1_000
"""Maximum number of runs in the timeline."""
FACTS: Final = 200
DRAWN: Final = 400
"""Maximum number of steps of a graph that is drawn in a report."""
MAX_LINKS: Final = 20
"""Maximum number of failed and open steps with a link to their place in the graph."""
MAP_FROM: Final = 0.3
"""The scale of the map from which on a graph needs none."""
MAP: Final = (150, 300)
"""Maximum width and height of the small map of a graph, in pixels."""
RUNS: Final = ("run", "undo")
MARKS: Final = {"ok": "✓", "completed": "✓", "error": "✗", "failed": "✗", "running": "▶", "waiting": "◷", "skipped": "–"}
"""Symbols beside the colour of a status, for readers who cannot distinguish colours."""
CLASSES: Final = {
    "ok": "ok", "completed": "ok", "running": "busy", "waiting": "wait", "paused": "wait", "skipped": "soft",
}  # fmt: skip
STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c1c21; --soft: #5d5d68; --line: #d9d9e0; --page: #ffffff; --band: #f5f5f8;
  --ok: #0b6e4f; --error: #b3261e; --busy: #1f5fa8; --wait: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf1; --soft: #a3a3b0; --line: #3a3a44; --page: #17171b; --band: #202026;
  --ok: #5fd3a8; --error: #ff8a80; --busy: #8ab8f5; --wait: #f0c060; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .6rem; vertical-align: top;
  border-bottom: 1px solid var(--line); } th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td { min-width: 5rem; }
@media (min-width: 44rem) { td:first-child { min-width: 10rem; } }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: var(--band); padding: .7rem; overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; }
.soft { color: var(--soft); } .ok { color: var(--ok); } .error { color: var(--error); } .busy { color: var(--busy); }
.wait { color: var(--wait); } ul { padding-left: 1.2rem; margin: .3rem 0; }
.lane { position: relative; height: .8rem; background: var(--band); min-width: 6rem; }
.lane i { position: absolute; top: 0; bottom: 0; min-width: 2px; background: currentColor; }
.graph { position: relative; } figure { margin: 0; overflow: auto; max-height: 80vh; border: 1px solid var(--line); }
figure > div { position: relative; width: max-content; } .beside { padding-left: 170px; }
figure svg { max-width: none; display: block; }
.begin { position: absolute; width: 1px; height: 1px; scroll-initial-target: nearest; }
.map { position: absolute; left: 1rem; bottom: 1rem; background: var(--page); border: 1px solid var(--soft); }
.map rect { fill: var(--soft); } .map .ok { fill: var(--ok); } .map .error { fill: var(--error); }
.map .running { fill: var(--busy); } .map .waiting { fill: var(--wait); }
@media (max-width: 44rem) { th { white-space: normal; } .steps, .steps tbody { display: block; }
  .steps tr:first-child, .steps td:empty { display: none; }
  .steps tr { display: flex; flex-wrap: wrap; gap: 0 .8rem; border-bottom: 1px solid var(--line); padding: .3rem 0; }
  .steps td { border: 0; padding: 0; min-width: 0; } .steps td:nth-child(5) { flex: 1 0 100%; order: 1; }
  .steps td:nth-child(1) { font-weight: 600; } .steps td:nth-child(3)::before { content: "×"; }
  .steps td:nth-child(6)::after { content: " of the cost"; } }
@media print { .map { display: none; } figure { max-height: none; } }
"""


def report(
    execution: Execution, why: Why, timeline: Timeline | None, cost: Cost | None, drawing: str = "", playbook: str = ""
) -> str:
    """Return the page. `playbook` is the name of the playbook in links to places; `drawing` is the graph as SVG."""
    parts = [
        *_head(execution),
        *_causes(why, playbook),
        *_facts(why, playbook),
        *(_graph(drawing) if drawing else ()),
        *_steps(execution, cost),
        *(_timeline(timeline) if timeline is not None else ()),
        *_value("Result", execution["result"]),
        *_value("ctx", execution["ctx"]),
    ]
    title = f"{execution['playbook']['path']} {execution['status']}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>\n"
        + "\n".join(parts)
        + "\n</main></body></html>\n"
    )


NOTEBOOK_STYLE: Final = """
.noetl h1 { font-size: 1.2em; } .noetl h2 { font-size: 1em; }
.noetl pre { white-space: pre-wrap; max-height: 20em; overflow: auto; }
.noetl .ok { color: #0b8a62; } .noetl .error { color: #d23b30; } .noetl .wait { color: #a87000; } .noetl .soft { opacity: .7; }
"""


def fragment(execution: Execution, why: Why, drawing: str = "") -> str:
    """Return a short form of the report, to stand in another page: a notebook.

    Its styles reach nothing outside of it. The drawing is an image, in which no script runs and whose styles stay its own.
    """
    image = f'<img alt="graph" src="data:image/svg+xml;base64,{b64encode(drawing.encode()).decode()}">' if drawing else ""
    parts = [*_head(execution), *_causes(why, ""), image, *_steps(execution, None), *_value("Result", execution["result"])]
    return f'<div class="noetl"><style>{NOTEBOOK_STYLE}</style>\n' + "\n".join(parts) + "\n</div>"


def _head(s: Execution) -> Iterator[str]:
    playbook = s["playbook"]
    yield f"<h1>{escape(playbook['path'])} {_status(s['status'])}</h1>"
    ended = f" to {escape(s['finished_at'])}" if s["finished_at"] else ""
    version = f"version {playbook['version']} · {playbook['digest'][:19]}"
    yield f'<p class="soft">execution {escape(s["execution_id"])} · {escape(version)}<br>'
    redriven = f" · redriven {s['redrive']['at']}" if "redrive" in s else ""
    took = s.get("redrive", s)["duration_ms"] or 0
    yield f"{escape(s['started_at'])}{ended}{redriven} · {took / 1000:,.2f} s · {s['events']:,} events</p>"


def _causes(why: Why, playbook: str) -> Iterator[str]:
    if why["causes"]:
        yield "<h2>Why it failed</h2>"
    for number, cause in enumerate(why["causes"]):
        where = f" in step {cause['step']}" if cause.get("step") else ""
        where += f" in task {cause['task']}" if cause.get("task") else ""
        where += f" @{'.'.join(map(str, cause['iteration']))}" if cause.get("iteration") else ""
        place = escape(_place(cause, cause.get("playbook", playbook)))
        kind = f'<b class="error">{escape(cause["kind"])}</b>'
        yield f"<p>{'then ' if number else ''}<b>{place}</b> {kind}{escape(where)}: {escape(cause['message'])}</p>"
        if "hint" in cause:
            yield f"<p>{escape(cause['hint'])}</p>"
        yield from _traceback(cause, playbook)
        for stream in ("stdout", "stderr"):
            if cause.get(stream):
                text = str(cause.get(stream))[-BLOCK:]
                yield f'<p class="soft">its last {"output" if stream == "stdout" else "errors"}:</p><pre>{escape(text)}</pre>'
        if cause.get("details") is not None:
            yield f"<pre>{escape(_short(cause.get('details'), BLOCK))}</pre>"


def _traceback(cause: Cause, playbook: str) -> Iterator[str]:
    lines = []
    for line in cause.get("traceback", []):
        place = f"{playbook}:{line['line']}" if "line" in line else line.get("file", "")
        lines.append(f"{place} in {line['name']}: {line['source']}")
    if lines:
        yield f"<pre>{escape(chr(10).join(lines))}</pre>"


def _facts(why: Why, playbook: str) -> Iterator[str]:
    if why["facts"]:
        yield "<h2>Facts</h2><ul>"
        for fact in why["facts"][:FACTS]:
            yield f'<li style="margin-left:{fact["depth"]}rem">{escape(_place(fact, playbook))} {escape(fact["text"])}</li>'
        yield "</ul>"


def _graph(drawing: str) -> Iterator[str]:
    """Yield the graph, with links to its failed and open steps; if it is large, it begins at the first of these, beside a map."""
    yield "<h2>Graph</h2>"
    steps = list(steps_of(drawing))
    order = ("error", "running", "waiting")
    entries = sorted((s for s in steps if s.status in order), key=lambda s: order.index(s.status))
    if entries:
        links = (f'<a class="{_class(s.status)}" href="#{s.id}">{MARKS[s.status]} {s.name}</a>' for s in entries[:MAX_LINKS])
        yield f"<p>{', '.join(links)}{f' and {len(entries) - MAX_LINKS:,} more' if len(entries) > MAX_LINKS else ''}</p>"
    small = _map(steps)
    if small and entries:
        place = f"left:{max(entries[0].x - 100, 0):.0f}px;top:{max(entries[0].y - 200, 0):.0f}px"
        drawing = f'<i class="begin" style="{place}"></i>{drawing}'
    yield '<div class="graph"><figure tabindex="0" aria-label="Graph">'
    yield f"<div{' class=beside' if small else ''}>{drawing}</div></figure>{small}</div>"


def _map(steps: Sequence[Drawn]) -> str:
    """Return the graph as a small map, whose boxes link to the steps; empty if the graph is small."""
    wide, tall = max(s.x + s.width for s in steps), max(s.y + s.height for s in steps)
    scale = min(MAP[0] / wide, MAP[1] / tall)
    if scale > MAP_FROM:
        return ""
    boxes = (
        f'<a href="#{s.id}" tabindex="-1"><title>{s.name}</title><rect class="{s.status}" x="{s.x:.0f}" y="{s.y:.0f}"'
        f' width="{s.width:.0f}" height="{s.height:.0f}"/></a>'
        for s in steps
    )
    size = f'width="{wide * scale:.0f}" height="{tall * scale:.0f}" viewBox="0 0 {wide:.0f} {tall:.0f}"'
    return f'<svg class="map" {size} aria-hidden="true">{"".join(boxes)}</svg>'


def _steps(s: Execution, cost: Cost | None) -> Iterator[str]:
    yield "<h2>Steps</h2><table class=steps><tr><th>step<th>status<th class=n>runs<th>loop<th>result"
    yield "</tr>" if cost is None else "<th class=n>share of the cost</tr>"
    whole = cost["total"]["cost"] if cost is not None else 0
    for name, step in s["steps"].items():
        loop = step.get("loop")
        counts = "" if loop is None else iterations(loop)
        part = cost["steps"].get(name) if cost is not None else None
        share = f"{part['cost'] / whole:.0%}" if part is not None and whole else ""
        yield (
            f"<tr><td>{escape(name)}<td>{_status(step['status'])}<td class=n>{step['runs']:,}<td>{escape(counts)}"
            f"<td>{escape('' if step['result'] is None else _short(step['result'], CELL))}"
            + ("</tr>" if cost is None else f"<td class=n>{share}</tr>")
        )
    yield "</table>"
    if whole:
        yield f'<p class="soft">This run costs ${whole:.9f} at AWS list prices.</p>'


def _timeline(timeline: Timeline) -> Iterator[str]:
    runs = [span for span in timeline["spans"] if span["kind"] in RUNS]
    whole = max(timeline["duration_ms"], 0.001)
    yield "<h2>Time</h2><table><tr><th>step<th>from the beginning to the end<th class=n>ms</tr>"
    for span in _runs_drawn(runs):
        took = span["duration_ms"]
        width = ((whole - span["offset_ms"]) if took is None else took) / whole * 100
        bar = f'<i style="left:{span["offset_ms"] / whole * 100:.2f}%;width:{width:.2f}%"></i>'
        ms = "" if took is None else f"{took:,.1f}"
        yield f'<tr><td>{escape(span["step"])}<td><div class="lane {_class(span["status"])}">{bar}</div><td class=n>{ms}</tr>'
    yield "</table>"
    if len(runs) > ROWS:
        yield f'<p class="soft">{len(runs) - ROWS:,} more runs, which were shorter and did not fail, are left out.</p>'


def _runs_drawn(runs: Sequence[Span]) -> Iterable[Span]:
    """Return the runs that are drawn: if there are too many, the failed and the slowest ones, in their order."""
    if len(runs) <= ROWS:
        return runs
    kept = sorted(runs, key=lambda r: (r["status"] != "error", -(r["duration_ms"] or 0)))[:ROWS]
    return sorted(kept, key=lambda r: r["offset_ms"])


def _value(title: str, value: Any) -> Iterator[str]:
    if value not in (None, {}):
        yield f"<h2>{title}</h2><pre>{escape(_short(value, BLOCK))}</pre>"


def _status(status: str) -> str:
    return f'<span class="{_class(status)}">{MARKS.get(status, "•")} {escape(status)}</span>'


def _class(status: str) -> str:
    return CLASSES.get(status, "error")


def _place(part: Mapping[str, Any], playbook: str) -> str:
    return f"{playbook}:{part['line']}" if "line" in part else ""


def _short(value: Any, most: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
