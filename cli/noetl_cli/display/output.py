"""Prints the output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from noetl_cli import terminal
from noetl_cli.errors import say
from noetl_cli.terminal import shortened, visible
from noetl_core.observe.counts import iterations
from noetl_core.values.result_refs import is_reference

MAX_ROWS = 20
"""The most rows of a result that are shown. Requested lists are shown whole."""
LONGEST = 2_000
"""The most characters of a result on one line."""
BATCH = 500
"""Values of a list that are encoded and written together."""
ERROR_WIDTH = 500
WIDE = 250
"""Columns if there is no terminal."""
STYLES = {"completed": "1;32", "failed": "1;31", "cancelled": "1;33", "bold": "1", "dim": "2", "red": "31"}
"""ANSI codes: plain lines need no library, whose import would be half of a short run's time."""


_encoder = json.JSONEncoder(ensure_ascii=False, default=str)


def as_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    sys.stdout.write(f"{_encoder.encode(value)}\n")


def as_list(values: Iterable[Any]) -> None:
    """Print a list as one JSON value on standard output, while its items are made."""
    sys.stdout.write("[")
    for number, some in enumerate(_batches(values)):
        sys.stdout.write((", " if number else "") + _encoder.encode(some)[1:-1])
    sys.stdout.write("]\n")


def as_lines(values: Iterable[Any]) -> None:
    """Print JSON lines on standard output, while the values are made."""
    for some in _batches(values):
        sys.stdout.write("".join(f"{_encoder.encode(value)}\n" for value in some))


def _batches(values: Iterable[Any]) -> Iterator[list[Any]]:
    each = iter(values)
    while some := list(islice(each, BATCH)):
        yield some


def as_data(value: Any, how: str) -> None:
    """Print a value for programs, as `json`, `jsonl` or `yaml`; an iterable that is not a list is printed while its items are
    made."""
    is_list = not isinstance(value, Mapping | str | int | float | None) and isinstance(value, Iterable)
    if how == "yaml":
        import yaml  # 33 ms: needed only on request

        plain = list(value) if is_list else value
        plain = json.loads(_encoder.encode(plain))  # without anchors, and only with JSON types
        yaml.safe_dump(plain, sys.stdout, allow_unicode=True, sort_keys=False, width=WIDE)
    elif is_list:
        as_lines(value) if how == "jsonl" else as_list(value)
    else:
        as_json(value)


def done(text: str, value: Any, how: str) -> None:
    """Print the outcome of a command: the text, or data."""
    if how == "text":
        print(text)
    else:
        as_data(value, how)


def rows(found: Sequence[Mapping[str, Any]], how: str) -> None:
    """Print a list in the requested form: text, json, jsonl or yaml."""
    if how != "text":
        as_data(found, how)
    elif found:
        table(found)
    else:
        say("nothing there")


def table(rows: Sequence[Mapping[str, Any]], title: str | None = None, most: int | None = None) -> None:
    """Print rows of the same form as a table: all, or the first `most` and the number of the others."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_cell(row.get(c)) for c in columns] for row in rows[:most]]
    words = _longest_words([columns, *cells])
    if sys.stdout.isatty() and sum(words) + 3 * (len(words) - 1) > terminal.columns(80):
        _records(columns, cells, title)
    else:
        _table(rows, columns, cells, words, title)
    if most is not None and len(rows) > most:
        print(styled(f"... and {len(rows) - most:,} more rows (`noetl get ID` has all)", "dim"))


def _longest_words(cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the length of the longest word of each column."""
    return [max(len(word) for cell in column for word in cell.split() or [""]) for column in zip(*cells, strict=True)]


def _records(columns: Sequence[str], cells: Sequence[Sequence[str]], title: str | None) -> None:
    """Print rows one below the other, each as lines of a column's name and its value: for a narrow terminal."""
    if title:
        print(styled(title, "bold"))
    width = max(map(len, columns))
    for number, row in enumerate(cells):
        if number:
            print()
        for column, cell in zip(columns, row, strict=True):
            print(f"{styled(column.ljust(width), 'bold')}  {cell}")


def _table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    words: Sequence[int],
    title: str | None,
) -> None:
    from rich.table import Table  # 70 ms: only tables

    out = Table(title=title, title_justify="left", title_style="bold", show_edge=False, pad_edge=False)
    for column, word in zip(columns, words, strict=True):
        numeric = all(isinstance(r.get(column), int | float) for r in rows)
        out.add_column(
            str(column), justify="right" if numeric else "left", overflow="fold", min_width=word if sys.stdout.isatty() else None
        )
    for row in cells:
        out.add_row(*row)
    _console().print(out)


def result(value: Any, title: str | None = None) -> None:
    """Print a result in its most readable form: rows as tables, mappings part by part, anything else as it is."""
    rows = _rows(value)
    if rows:
        table(rows, title, MAX_ROWS)
        if isinstance(value, Mapping) and (beside := {k: v for k, v in value.items() if k != "rows"}):
            print()
            result(beside)
    elif isinstance(value, Mapping) and any(_rows(v) for v in value.values()):
        plain = {k: v for k, v in value.items() if not _rows(v)}
        for name, part in value.items():
            if _rows(part):
                result(part, str(name))
                print()
        if plain:
            result(plain)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            print(f"{styled(visible(str(name)), 'bold')}: {_cell(part)}")
    elif value is not None:
        text = visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        cut = "" if isinstance(value, str) or len(text) <= LONGEST else f"… ({len(text):,} characters: `noetl get ID` has all)"
        print(f"{text[:LONGEST]}{styled(cut, 'dim')}" if cut else text)


def headline(s: Mapping[str, Any]) -> str:
    """Return `failed in 0.01 s (1 step, 16 events)`."""
    events = f", {s['events']:,} events" if s.get("events") else ""
    steps = f"{len(s['steps'])} step{'s' if len(s['steps']) != 1 else ''}"
    count = s["warnings"]["count"] if "warnings" in s else 0
    warnings = f", {styled(plural(count, 'warning'), 'cancelled')}" if count else ""
    took = s.get("redrive", s)["duration_ms"] / 1000
    since = " since its redrive" if "redrive" in s else ""
    return f"{styled(s['status'], s['status'])} in {took:.2f} s{since} ({steps}{events}{warnings})"


def plural(count: int, word: str) -> str:
    """Return `1 warning` or `2 warnings`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


_DONE = {
    "start": "started",
    "pause": "paused",
    "resume": "resumed",
    "cancel": "cancelled",
    "redrive": "redriven",
    "answer": "answered",
}


def authors(s: Mapping[str, Any]) -> None:
    """Print the starter of an execution, and the author of the last operation of each kind."""
    done = {what: by for what, by in s.get("by", {}).items() if what != "start" or "trigger" not in s}
    if done:
        print(visible(", ".join(f"{_DONE[what]} by {by['principal']} ({by['source']})" for what, by in done.items())))


def surroundings(s: Mapping[str, Any]) -> None:
    """Print the trigger of an execution, the recipient of its failure, and its search attributes."""
    if trigger := s.get("trigger"):
        print(f"started by {trigger['kind']} {trigger['name']}: {trigger['id']}")
    if (handled := s.get("on_failure")) and s["status"] != "completed":  # a redrive may have mended it
        how = f"execution {handled['execution_id']}" if "execution_id" in handled else f"not told: {handled['error']}"
        print(f"on failure: {handled['handler']} ({how})")
    if s.get("search"):
        print("search " + ", ".join(f"{k}={v}" for k, v in s["search"].items()))
    for name, why in s.get("search_left_out", {}).items():
        print(f"search attribute {name} is left out: {why}")


def on_option(on: str) -> str:
    """Return the options with which another command asks the same store or stack."""
    return "" if on == "local" else " --on stack"


def looks(s: Mapping[str, Any], on: str, *, shown: bool = False, tolerated: Iterable[str] = ()) -> str:
    """Return which commands show more of an execution; `shown`: it is shown already; `tolerated`: steps that succeeded with
    failed iterations."""
    on = on_option(on)
    names = [*(["why"] if s["status"] != "completed" else []), *([] if shown else ["show"]), "events"]
    found = [f"noetl {command} {s['execution_id']}{on}" for command in names]
    found += [f"noetl show {s['execution_id']} {step} --failed{on}" for step in tolerated]
    if s["status"] == "failed" or (s["status"] == "completed" and tolerated):
        found.append(f"noetl redrive {s['execution_id']}{on}")
    if is_reference(s["result"]):
        found.insert(0, f"noetl get {s['execution_id']}{on} -o FILE (the result is stored)")
    return styled(f"look at it: {' · '.join(found)}", "dim")


def limited(wait: Mapping[str, Any]) -> str:
    """`waiting: limit orders 5/5, 12th; held by 123, 124`."""
    place = f", {nth(wait['position'])}" if "position" in wait else ""
    step = f" (step {wait['step']})" if "step" in wait else ""
    more = ", ..." if wait["held"] > len(wait["held_by"]) else ""
    held = f"; held by {', '.join(wait['held_by'])}{more}" if wait["held_by"] else ""
    return f"waiting: {full(wait)}{place}{step}{held}"


def awaited(wait: Mapping[str, Any]) -> str:
    """`callback since 2026-03-01T12:00:00Z`, `limit orders 5/5`: the wait of an execution, in a line of a list."""
    if wait["kind"] == "limit":
        return full(wait)
    name = wait.get("signal") or wait.get("child")
    since = f" since {wait['since'][:19]}Z" if "since" in wait else ""
    return f"{wait['kind']}{f' {visible(name)}' if name else ''}{since}"


def full(wait: Mapping[str, Any]) -> str:
    """`limit orders 5/5`."""
    return f"limit {wait['limit']} {wait['held']}/{wait['max']}"


def nth(number: int) -> str:
    """`1st`, `2nd`, `12th`."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def error_details(details: Any) -> None:
    """Print the parts of an error besides its message."""
    parts = details if isinstance(details, Mapping) else {} if details is None else {"details": details}
    for name, part in parts.items():
        text = visible(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False))
        print(f"  {styled(visible(str(name)), 'bold')}: {shortened(text, ERROR_WIDTH)}")


def styled(text: str, style: str) -> str:
    """Return the text in a style of `STYLES` when the output is a terminal."""
    code = STYLES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code and colours() else text


def colours() -> bool:
    """Return whether standard output takes colours: a terminal does, unless `NO_COLOR` is set (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def steps(s: Mapping[str, Any]) -> None:
    """Print the steps of a summary."""
    rows = []
    for name, step in s["steps"].items():
        loop = step.get("loop")
        counts = iterations(loop) if loop else ""
        rows.append(
            {"step": name, "status": step["status"], "runs": step["runs"], "loop": counts, "result": _cell(step["result"], 60)}
        )
    if rows:
        table(rows)


def _rows(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, Mapping) and isinstance(value.get("rows"), list):
        value = value["rows"]
    if isinstance(value, list) and value and all(isinstance(r, Mapping) for r in value):
        return value
    return []


def _cell(value: Any, width: int = 200) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(visible(text), width)


def _console() -> Any:
    from rich.console import Console  # 130 ms: plain lines need no library

    return Console() if sys.stdout.isatty() else Console(width=WIDE, soft_wrap=True)


def event_line(e: Mapping[str, Any]) -> str:
    """Return an envelope as one line."""
    what = "".join(f" {e[k]}" for k in ("step", "task") if e.get(k))
    if "authored" in e["data"]:
        what += f" ({e['data']['authored']['label']}, line {e['data']['authored']['line']})"
    where = f" {e['iteration']}" if e.get("iteration") is not None else ""
    data = shortened(visible(json.dumps(e["data"], ensure_ascii=False, default=str)), 160)
    return f"{e['timestamp'][11:26]} {e['source'][:1]} {e['name']:<26}{what}{where} {data}"
