"""The OpenAPI document keeps its promises: what `openapi.json` has stays, unless it is changed with intent. New operations, optional
parameters and keys need no change there. `python -m tests.unit.api.test_document` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noetl_core.api.document import document
from noetl_core.api.fields import specs
from noetl_core.api.requests import REQUESTS

PROMISED = Path(__file__).with_name("openapi.json")
PROSE = ("description", "summary", "info")
GROWING = ("paths", "schemas", "properties", "responses", "content")
"""Objects that may get more keys."""


def promises(value: Any) -> Any:
    """Return a document without prose, and without the schemas of events, which the log's own tests hold."""
    if isinstance(value, list):
        return [promises(part) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {k: v for k, v in value.items() if not (k in PROSE and isinstance(v, str)) and not k.startswith("Event.")}
    found = {k: promises(v) for k, v in kept.items() if k not in ("Event", "info")}
    if isinstance(found.get("anyOf"), list):  # its order depends on which module named the types first
        found["anyOf"].sort(key=lambda choice: json.dumps(choice, sort_keys=True))
    return found


def broken(old: Any, new: Any, at: str = "", growing: bool = False) -> Iterator[str]:
    """Yield the places where `new` does not keep what `old` promises."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from (f"{at}/{key} is gone" for key in old.keys() - new.keys())
        if not growing:
            yield from (f"{at}/{key} is new" for key in new.keys() - old.keys() if key not in ("get", "post", "delete"))
        for key in old.keys() & new.keys():
            yield from broken(old[key], new[key], f"{at}/{key}", key in GROWING)
    elif at.endswith("/parameters"):
        named = {(p["name"], p["in"]): p for p in new}
        yield from broken({str(k): p for k, p in _named(old).items()}, {str(k): p for k, p in named.items()}, at + "/", True)
        yield from (f"{at}/{name} is required" for name, p in named.items() if p["required"] and name not in _named(old))
    elif old != new:
        yield f"{at} was {str(old)[:80]}, is {str(new)[:80]}"


def _named(parameters: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(p["name"], p["in"]): p for p in parameters}


def promised() -> Any:
    return json.loads(PROMISED.read_text())


def test_everything_promised_is_still_so() -> None:
    assert list(broken(promised(), promises(json.loads(json.dumps(document()))))) == []


def test_a_changed_status_a_new_required_parameter_and_a_lost_key_are_found() -> None:
    changed = promises(json.loads(json.dumps(document())))
    del changed["paths"]["/api/health"]["get"]["responses"]["200"]
    changed["paths"]["/api/limits"]["get"]["parameters"].append({"name": "x", "in": "query", "required": True, "schema": {}})
    del changed["components"]["schemas"]["Health"]["properties"]["version"]
    found = sorted(broken(promised(), changed))
    assert len(found) == 3 and ["/Health/" in found[0], "'x'" in found[2] or "'x'" in found[1]] == [True, True]


def test_bodies_of_one_name_have_the_same_fields() -> None:
    bodies: dict[str, set[tuple[tuple[str, str, bool], ...]]] = {}
    for kind in REQUESTS:
        fields = tuple(sorted((s.attribute, s.name, s.required) for s in specs(kind) if s.place == "body"))
        bodies.setdefault(kind.http.body, set()).add(fields)
    assert {name for name, found in bodies.items() if len(found) > 1} == set()


if __name__ == "__main__":
    PROMISED.write_text(json.dumps(promises(document()), separators=(",", ":"), sort_keys=True) + "\n")
