"""Writes playbooks as text, in the layout of `noetl fmt`, with the findings as comments above their steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from noetl_import.findings import Finding
from noetl_import.machine import Written
from noetl_migrate.formatting import formatted


class _Dumper(yaml.SafeDumper):
    """Writes templates in double quotes, and program text as a block."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Inline(dict[str, Any]):
    """A mapping that is written in braces."""


INLINE_WIDTH: Final = 110
BRACED: Final = frozenset({"arcs", "rules", "then", "else", "next", "spec", "error"})
"""Keys whose values stand in braces, if they are short; of `arcs` and `rules` each element."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else '"' if "{{" in value and '"' not in value and "\\" not in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _inline(dumper: yaml.SafeDumper, value: _Inline) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(_Inline, _inline)


def text_of(written: Written) -> str:
    """Return the text of a playbook."""
    document = {key: value for key, value in written.document.items() if key != "workflow"}
    lines = [_yaml(document), "workflow:\n"]
    for step in written.document["workflow"]:
        lines += _comments(written.notes.get(step["step"], ()))
        lines.append(_indented(_yaml([_ordered(step)])))
    return formatted("".join(lines))


def _ordered(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _compact(key, step[key]) for key in ("step", "desc", "spec", "loop", "tool", "set_ctx", "next") if key in step}


def _compact(key: str, value: Any) -> Any:
    """Return a value with its short arcs, directives and specs in braces."""
    match value:
        case dict():
            inner = {name: _compact(name, each) for name, each in value.items()}
            short = len(_yaml(_Inline(value))) < INLINE_WIDTH and "\n" not in str(value)
            plain = "set_ctx" not in value and "set_iter" not in value
            return _Inline(value) if key in BRACED and short and plain else inner
        case list():
            return [_compact(key if key in ("arcs", "rules") else "", each) for each in value]
    return value


def _yaml(value: Any) -> str:
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000))


def _indented(text: str) -> str:
    return "".join(f"  {line}" if line.strip() else line for line in text.splitlines(keepends=True))


def _comments(findings: Iterable[Finding]) -> Iterable[str]:
    for finding in findings:
        yield f"  # {finding.level}: {' '.join(finding.message.split())} ({finding.remedy})\n"
