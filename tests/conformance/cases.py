"""Cases: YAML files read into `Case`, with everything the format does not know refused."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.conformance import strict_yaml
from tests.conformance.script import scripted

FOLDER = Path(__file__).parent / "cases"

CASE_KEYS = (
    "case",
    "covers",
    "why",
    "playbook",
    "registered",
    "payload",
    "request",
    "secrets",
    "tools",
    "acts",
    "concurrent",
    "expect",
)
REQUEST_KEYS = ("by", "ctx", "version", "idempotency_key", "trace_id")
REQUEST_BY = ("text", "path", "path+version", "id")
EXPECT_KEYS = (
    "diagnostics", "refused", "status", "result", "ctx", "error", "steps", "events", "never", "count", "check",
)  # fmt: skip
ACTS = ("signal", "cancel", "pause", "resume")
ACT_KEYS = ("at", *ACTS)


class BadCase(ValueError):
    """A case file does not follow the format; the message says where and what."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `text` is the playbook's text as the engine gets it; the rest is as README.md describes it."""

    id: str
    covers: tuple[str, ...]
    text: str
    expect: Mapping[str, Any]
    registered: tuple[str, ...] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, Any] = field(default_factory=dict)
    acts: tuple[Mapping[str, Any], ...] = ()
    concurrent: bool = False
    file: str = ""

    @property
    def runs(self) -> bool:
        """Return whether the case runs its playbook. Otherwise it only refuses or inspects it."""
        return not {"status", "events", "result", "ctx", "steps", "error", "count"}.isdisjoint(self.expect)


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case of every file. Raises `BadCase`."""
    cases = [case for path in sorted(FOLDER.glob("*/*.yaml")) for case in read(path)]
    seen: dict[str, Case] = {}
    for case in cases:
        if case.id in seen:
            raise BadCase(f"{case.file}: there is another case called {case.id}")
        seen[case.id] = case
    return tuple(cases)


def read(path: Path) -> list[Case]:
    """The cases of a file, a YAML document each. Raises `BadCase`."""
    try:
        documents = strict_yaml.load(path)
    except yaml.YAMLError as error:
        raise BadCase(f"{path.name}: {error}") from error
    text = path.parent.name
    return [_case(document, text, f"{text}/{path.name}") for document in documents]


def _case(raw: Any, text: str, file: str) -> Case:
    if not isinstance(raw, dict) or not isinstance(raw.get("case"), str):
        raise BadCase(f"{file}: a case is a mapping with case: <name>")
    where = f"{file}: {raw['case']}"
    _known(where, raw, CASE_KEYS)
    for key in ("covers", "playbook", "expect"):
        if not raw.get(key):
            raise BadCase(f"{where}: {key} is missing")
    expect = raw["expect"]
    _known(f"{where}: expect", expect, EXPECT_KEYS)
    request = raw.get("request", {})
    _known(f"{where}: request", request, REQUEST_KEYS)
    if request.get("by", "text") not in REQUEST_BY:
        raise BadCase(f"{where}: request.by is one of {', '.join(REQUEST_BY)}")
    acts = raw.get("acts", [])
    for act in acts:
        _known(f"{where}: acts", act, ACT_KEYS)
        if "at" not in act or len(act) != 2:
            raise BadCase(f"{where}: an act is at: <status>, and one of {', '.join(ACTS)}")
    name = f"{text}/{raw['case']}"
    tools = raw.get("tools", {})
    playbook, found = _text(raw["playbook"], name, tools)
    registered = []
    for n, other in enumerate(raw.get("registered", [])):
        written, more = _text(other, f"{name}-{n}", tools)
        registered.append(written)
        found |= more
    if missing := sorted(tools.keys() - found):
        raise BadCase(f"{where}: tools: no task is called {missing[0]}; a task's name here is <step>.<task> or workbook.<task>")
    return Case(
        id=name,
        covers=tuple(raw["covers"]),
        text=playbook,
        expect=expect,
        registered=tuple(registered),
        payload=raw.get("payload", {}),
        request=request,
        secrets=raw.get("secrets", {}),
        acts=tuple(acts),
        concurrent=bool(raw.get("concurrent", False)),
        file=file,
    )


def _text(playbook: Any, name: str, tools: Mapping[str, Any]) -> tuple[str, set[str]]:
    """The playbook's text, and which of `tools` it has. One written as a mapping may leave out its head; one written as text
    stays as it is, unless tasks of it are scripted."""
    if isinstance(playbook, str):
        if not tools:
            return playbook, set()
        whole = yaml.load(playbook, yaml.CSafeLoader)
    else:
        metadata = {"name": name.rpartition("/")[2], "path": f"conformance/{name}"}
        whole = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": metadata, **playbook}
    written, found = scripted(whole, tools) if tools else (whole, set[str]())
    if isinstance(playbook, str) and not found:
        return playbook, found
    return yaml.dump(written, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=10**6), found


def _known(where: str, mapping: Any, known: tuple[str, ...]) -> None:
    if not isinstance(mapping, dict):
        raise BadCase(f"{where}: a mapping is expected")
    for key in mapping:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise BadCase(f"{where}: unknown key {key!r}; {hint}")
