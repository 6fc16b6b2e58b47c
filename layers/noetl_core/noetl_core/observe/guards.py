"""Evaluates conditions once more, with the values that they read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from noetl_core.dsl.model import AdmitRule, Path, Router, Step
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.reading.positions import Positions
from noetl_core.engine.routing.passes import RoutingPass, event_namespace
from noetl_core.events.shapes import TokenEvent
from noetl_core.expr import Scope, TemplateError, compile_text, is_reference, is_template, path_text, render, truthy

if TYPE_CHECKING:
    from noetl_core.api.shapes import why as why_shapes

SHOWN: Final = 120
"""Maximum number of characters of a value that are shown."""
MOST_READS: Final = 12
"""Maximum number of values of one condition that are shown."""
UNDEFINED: Final = "undefined"
MOST_KEYS, KEY_CHARS = 8, 40
"""Maximum number of keys of a mapping that are shown, and of their characters."""
WITHHELD: Final = ("keychain", "callback")
"""Names with secrets below."""


def scope_of(p: RoutingPass, args: Mapping[str, Any], event: TokenEvent | None) -> Scope:
    """Return the values that the guards of a run or a token see."""
    return p.scope(args, event_namespace(event) if event else None)


def guard(when: Any, scope: Scope, path: Path, text: Positions) -> why_shapes.Guard:
    """Evaluate a condition: return whether it is true, or its error, and the values it read."""
    out: why_shapes.Guard = {"when": _plain(when), "holds": None, "reads": reads(when, scope)}
    try:
        out["holds"] = truthy(when, scope)
    except TemplateError as error:
        out["error"] = str(error)
    place(out, text, path, "when")
    return out


def arcs(router: Router, step: Step, scope: Scope, selected: tuple[int, ...], text: Positions) -> list[why_shapes.Arc]:
    """Return every arc of a step with its evaluation. Arcs after the winner of an exclusive choice were not evaluated."""
    out: list[why_shapes.Arc] = []
    won = False
    for arc in router.arcs:
        judged: why_shapes.Arc = {"arc": arc.index, "source": step.name, "target": arc.step, "fired": arc.index in selected}
        place(judged, text, arc.path)
        if won and router.mode == "exclusive":
            judged["not_looked_at"] = True
        elif arc.when is not None:
            judged["guard"] = guard(arc.when, scope, arc.path, text)
        won = won or judged["fired"]
        out.append(judged)
    return out


def admission(rules: tuple[AdmitRule, ...], scope: Scope, text: Positions) -> tuple[list[why_shapes.Guard], bool | None]:
    """Return the rules of an admission up to the one that decided, and the decision; None if that is not known."""
    seen: list[why_shapes.Guard] = []
    for rule in rules:
        if rule.when is not None:
            seen.append(guard(rule.when, scope, rule.path, text))
            if seen[-1]["holds"] is None:
                return seen, None
            if not seen[-1]["holds"]:
                continue
        elif is_template(rule.allow):
            seen.append(guard(rule.allow, scope, rule.path, text))
        try:
            return seen, truthy(rule.allow, scope)
        except TemplateError:
            return seen, None
    return seen, True


def reads(source: Any, scope: Scope) -> list[why_shapes.Read]:
    """Return the values that a condition, or data with templates in it, reads, as far as its paths are literal."""
    found: dict[str, why_shapes.Read] = {}
    for parts in _paths(source):
        name = path_text(parts)
        if name in found or len(found) >= MOST_READS:
            continue
        for length in range(1, len(parts) + 1):
            if not _defined(parts[:length], scope):
                found[name] = {"name": name, "value": UNDEFINED, "undefined": True}
                if hint := _hint(parts[:length], scope):
                    found[name]["hint"] = hint
                break
        else:
            found[name] = {"name": name, "value": _value(parts, scope)}
    return list(found.values())


def names_beside(source: Any, name: str, scope: Scope) -> str:
    """Return the keys of the mapping in which data with templates looks for an undefined `name`, the most similar first:
    `workload.order.amuont is undefined, did you mean "amount"? workload.order has: amount, id`. Empty without such a mapping."""
    for parts in _paths(source):
        for length in range(2, len(parts) + 1):
            if parts[length - 1] == name and not _defined(parts[:length], scope):
                above = parts[: length - 1]
                known = _keys(above, scope)
                if known is None or above[0] in WITHHELD:
                    return ""
                hint = suggest(name, known)
                nearest = sorted(known, key=lambda key: -SequenceMatcher(None, name, key).ratio())[:MOST_KEYS]
                more = f", and {len(known) - MOST_KEYS:,} more" if len(known) > MOST_KEYS else ""
                has = f"has: {', '.join(map(_short, nearest))}{more}" if known else "is empty"
                lead = f"{path_text(parts[:length])} is undefined" + (f", {hint}" if hint else ";")
                return f"{lead} {path_text(above)} {has}"
    return ""


def _keys(parts: tuple[str, ...], scope: Scope) -> list[str] | None:
    """Return the keys of a mapping; None of another value, whose parts may be secret."""
    path = _expression(parts)
    try:
        known = render(f"{{{{ {path} | list if {path} is mapping else none }}}}", scope, undefined_ok=True)
    except TemplateError:
        return None
    return [str(key) for key in known] if isinstance(known, list) else None


def _short(text: str) -> str:
    return text if len(text) <= KEY_CHARS else text[: KEY_CHARS - 1] + "…"


def _paths(source: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(source, Mapping | list):
        for each in source.values() if isinstance(source, Mapping) else source:
            yield from _paths(each)
    elif is_template(source):
        yield from (read.path for read in compile_text(source).reads)


def _defined(parts: tuple[str, ...], scope: Scope) -> bool:
    try:
        return bool(render(f"{{{{ {_expression(parts)} is defined }}}}", scope))
    except TemplateError:
        return False


def _hint(parts: tuple[str, ...], scope: Scope) -> str:
    """Return the name that was probably meant."""
    *above, name = parts
    try:
        known = render(f"{{{{ {_expression(tuple(above))} | list }}}}", scope, undefined_ok=True) if above else list(scope)
    except TemplateError:
        return ""
    names = [each for each in known if isinstance(each, str)] if isinstance(known, list) else []
    return suggest(name, names)


def _value(parts: tuple[str, ...], scope: Scope) -> str:
    try:
        return described(render(f"{{{{ {_expression(parts)} }}}}", scope, undefined_ok=True))
    except TemplateError as error:
        return f"({error})"


def _expression(parts: tuple[str, ...]) -> str:
    """Return a path as an expression."""
    return parts[0] + "".join(f"[{json.dumps(part)}]" for part in parts[1:])


def described(value: Any) -> str:
    """Return a value as JSON, shortened. Of a stored value, return its description."""
    if is_reference(value):
        hint = value.get("schema_hint")
        what = hint.get("type", "value") if isinstance(hint, Mapping) else "value"
        return f"a stored {what} of {value.get('size', 0):,} bytes"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def place(out: Any, text: Positions, path: Path, *below: str) -> None:
    """Add the position of a part of the playbook, if it is known."""
    where = text.of(path, *below)
    if where is not None:
        out["line"], out["column"] = where


def _plain(when: Any) -> str:
    """Return a condition without its braces."""
    text = when.strip() if isinstance(when, str) else described(when)
    if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1:
        return text[2:-2].strip()
    return text
