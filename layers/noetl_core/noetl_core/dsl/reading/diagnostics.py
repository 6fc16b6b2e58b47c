"""Findings: mistakes in a playbook, their places and the remedies.

A `Diagnostic` has a stable code: E1xx structure, E2xx references, E3xx templates, W4xx and W5xx lint. `to_text` gives one
line each; `to_json` and `to_sarif` are for editors and code review.
"""

from __future__ import annotations

import difflib
import json
from bisect import bisect
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from noetl_core import __version__
from noetl_core.dsl.model import Path
from noetl_core.values.frozen import frozen

Severity = Literal["error", "warning", "note"]

CODES: Final[dict[str, str]] = {
    "E100": "not readable as YAML",
    "E101": "over a size, nesting or alias budget",
    "E102": "a character that a playbook may not hold",
    "E103": "duplicate key",
    "E104": "a YAML feature that playbooks do not use",
    "E110": "unknown key",
    "E111": "a required key is missing",
    "E112": "wrong type",
    "E113": "not one of the allowed values",
    "E114": "keys that do not belong together",
    "E115": "not a usable name",
    "E116": "a step needs tool or next",
    "E117": "a loop needs the key `iterator`, and either `in` or `cursor`",
    "E118": "unknown tool kind",
    "E119": "a policy out of shape",
    "E120": "a form of a legacy dialect",
    "E121": "vars at the root",
    "E122": "duplicate step name",
    "E123": "duplicate task name",
    "E124": "number out of range",
    "E125": "not a playbook of a supported version",
    "E126": "control action outside a task policy",
    "E127": "a legacy form that cannot be rewritten faithfully",
    "E128": "a schema out of shape",
    "E129": "text that is not a valid package requirement",
    "E130": "a script that is not there",
    "E131": "a trigger that could never fire",
    "E201": "arc to a missing step",
    "E202": "jump to a missing task",
    "E203": "entry step that does not exist",
    "E204": "workbook task that does not exist",
    "E205": "a secret where the control plane decides",
    "E206": "a credential that the keychain does not declare",
    "E207": "a result that no step keeps",
    "E208": "a default, or a credential, reads a value that does not exist yet",
    "E209": "defaults of the workload that need each other",
    "E210": "a secret result outside its step",
    "E211": "a task of another playbook that does not exist",
    "E301": "template syntax",
    "E302": "template over a budget",
    "E303": "a condition that is not an expression",
    "E304": "a program that does not compile",
    "E305": "an entry function that the program does not define",
    "W401": "a value that YAML 1.1 reads differently",
    "W402": "policy that swallows errors",
    "W403": "accepted without effect",
    "W404": "admission without else",
    "W405": "a step that only ends",
    "W406": "a task form other than the canonical one",
    "W408": "a key without effect beside this directive",
    "W409": "rules after one that always matches",
    "W450": "rewritten, and worth a look",
    "W501": "a step that is never reached",
    "W502": "an arc after one that always fires",
    "W503": "a guard that is always false",
    "W504": "a guard on an event that never comes",
    "W505": "a join that never completes",
    "W506": "a join that waits for itself",
    "W507": "admission that is never granted",
    "W508": "admission that waits for a value that is written after it",
    "W509": "tokens that grow without bound",
    "W510": "a cycle without a way out",
    "W511": "branches that meet without a join",
    "W512": "a pipeline that falls through into an error branch",
    "W513": "a task that never runs",
    "W514": "a race on ctx in a parallel loop",
    "W515": "a name that nothing binds",
    "W516": "a workload key that nothing reads",
    "W517": "a secret in plain text",
    "W518": "an ignore comment that silences nothing",
    "W519": "a pipeline that never ends",
    "W520": "a loop that is too long",
    "W521": "a claim that cannot be repeated",
    "W522": "a credential that nothing uses",
    "W523": "a template in the code of a task",
    "W524": "a namespace that only templates have, in the code of a task",
    "W525": "a rule that never matches",
    "W526": "a name that the code of a task does not have",
    "W527": "an import without a requirement",
    "W528": "a URL that cannot be requested",
    "W529": "SQL that does not parse",
    "W530": "parameters that the SQL does not take",
    "W531": "a template in SQL",
    "W532": "a payload that the called playbook does not take",
    "W533": "an ambiguous path into a response",
    "W534": "syntax of another language",
    "W535": "a timeout that a stack cannot keep",
}
"""Every code with its subject."""

_EXPLAINED: Final = frozenset({"E201", "E202", *(code for code in CODES if code[0] == "W")}) - {"W450"}
"""Codes with a page of their own: all lint codes, and related errors. `noetl migrate` reports W450."""

MIGRATE: Final = "rewrite it with `noetl migrate`"


@frozen
class Diagnostic:
    """One finding. `line` and `col` count from 1; `path` is the place in the document, as far as it is known."""

    code: str
    severity: Severity
    message: str
    hint: str = ""
    source: str = "<string>"
    line: int = 1
    col: int = 1
    path: Path = ()

    @property
    def brief(self) -> str:
        """Return it without the name of the text."""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.line}:{self.col} {self.code} {self.message}{hint}"

    def __str__(self) -> str:
        return f"{self.source}:{self.brief}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; `loc` is the dotted path."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint or None,
            "page": page_of(self.code),
            "source": self.source,
            "line": self.line,
            "col": self.col,
            "loc": dotted(self.path),
        }


class InvalidPlaybook(Exception):
    """The text is not a valid playbook. Who acts: its author. `diagnostics` contains all findings."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(to_text(d for d in diagnostics if d.severity == "error"))


def page_of(code: str) -> str | None:
    """Return the page that explains a code: the reason, a bad example, a good one."""
    return f"docs/language/lint/{code}.md" if code in _EXPLAINED else None


def dotted(path: Path) -> str:
    """Return `("workflow", 0, "tool")` as `workflow[0].tool`."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


LONGEST_SLIP = 100
"""Maximum length of a word that may be a misspelling of another."""
COMPARED = 100
"""Maximum number of names with which a wrong word is compared."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `did you mean "..."?` for the nearest of `known`, or nothing."""
    near = close(word, known)
    return f'did you mean "{near}"?' if near else ""


def close(word: str, known: Iterable[str]) -> str:
    """Return the nearest of `known`, or nothing. If there are many names, only those with the same beginning are compared: a
    document may contain thousands of wrong words."""
    if len(word) > LONGEST_SLIP:
        return ""
    names = sorted(name for name in known if len(name) <= LONGEST_SLIP)
    if len(names) > COMPARED:
        at = bisect(names, word)
        names = names[max(0, at - COMPARED // 2) : at + COMPARED // 2]
    near = difflib.get_close_matches(word, names, 1, cutoff=0.6)
    return near[0] if near else ""


_FOREIGN_WORDS: dict[str, tuple[str, ...]] = {
    "as": ("iterator",),
    "body": ("data", "payload", "message"),
    "cond": ("when",),
    "condition": ("when",),
    "content": ("data",),
    "create": ("put",),
    "credential": ("auth",),
    "credentials": ("auth",),
    "download": ("get",),
    "for_each": ("loop",),
    "foreach": ("loop",),
    "insert": ("append",),
    "merge": ("upsert",),
    "object": ("key",),
    "on_error": ("policy",),
    "op": ("action",),
    "overwrite": ("replace",),
    "over": ("in",),
    "provider": ("url",),
    "query": ("params",),
    "query_params": ("params",),
    "querystring": ("params",),
    "read": ("get",),
    "remove": ("delete",),
    "retries": ("attempts",),
    "save": ("put",),
    "set": ("put",),
    "topic": ("queue",),
    "truncate": ("replace",),
    "type": ("kind",),
    "update": ("put",),
    "upload": ("put",),
    "write": ("put",),
}
"""Names in other tools and languages -> their names here; the first that is known at the word's place is suggested."""


_ORDER = frozenset({"after", "depends_on", "depends", "needs", "requires"})
"""Keys with which other systems order steps."""
_TASK_KEYS = frozenset({"kind", "url", "method", "headers", "code", "command", "query", "script", "auth", "credential", "action"})
"""Keys of tasks that are written beside `tool`."""


def suggest_word(word: str, known: Iterable[str]) -> str:
    """Return `did you mean "..."?` for a key or value of the language, which other tools may name differently."""
    words = frozenset(known)
    if word in _TASK_KEYS and "tool" in words:
        return (
            f"it belongs to the task: tool: {{ kind: ..., {word}: ... }}"
            if word != "kind"
            else "it belongs to the task: tool: { kind: ... }"
        )
    if word in _ORDER and "next" in words:
        return "order is written in the step before: next: { arcs: [{ step: ... }] }"
    meant = next((name for name in _FOREIGN_WORDS.get(word, ()) if name in words), None)
    return f'did you mean "{meant}"?' if meant else suggest(word, words)


def to_text(diagnostics: Iterable[Diagnostic]) -> str:
    return "\n".join(str(d) for d in diagnostics)


def to_json(diagnostics: Iterable[Diagnostic]) -> str:
    return json.dumps([d.as_dict() for d in diagnostics], indent=2, ensure_ascii=False)


def to_sarif(diagnostics: Iterable[Diagnostic]) -> str:
    """Return SARIF 2.1.0 with one run; its rules are the codes that occur."""
    found = list(diagnostics)
    codes = sorted({d.code for d in found})
    rules = [_sarif_rule(code) for code in codes]
    results = [
        {
            "ruleId": d.code,
            "ruleIndex": codes.index(d.code),
            "level": d.severity,
            "message": {"text": d.message + (f" ({d.hint})" if d.hint else "")},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": d.source},
                        "region": {"startLine": d.line, "startColumn": d.col},
                    },
                    "logicalLocations": [{"fullyQualifiedName": dotted(d.path)}],
                }
            ],
        }
        for d in found
    ]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "noetl", "version": __version__, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _sarif_rule(code: str) -> dict[str, Any]:
    page = page_of(code)
    rule: dict[str, Any] = {"id": code, "shortDescription": {"text": CODES.get(code, code)}}
    return rule if page is None else {**rule, "helpUri": page}
