"""W519: pipelines that go round forever, and those that look like it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from noetl_core.dsl.parse import check

HEAD = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "a", "path": "a"}}


def task(name: str, *rules: dict[str, Any], kind: str = "noop", **more: Any) -> dict[str, Any]:
    policy = {"spec": {"policy": {"rules": list(rules)}}} if rules else {}
    return {"name": name, "kind": kind, **more, **policy}


def rule(when: str | None, do: str, **then: Any) -> dict[str, Any]:
    return {"else": {"then": {"do": do, **then}}} if when is None else {"when": when, "then": {"do": do, **then}}


BACK = rule(None, "jump", to="a")
OK = "{{ outcome.status == 'ok' }}"
ERROR = "{{ outcome.status == 'error' }}"
URL = {"kind": "http", "url": "http://x"}


@pytest.mark.parametrize(
    ("tool", "endless"),
    [
        ([task("a", BACK)], True),
        ([task("a"), task("b", BACK)], True),
        ([task("z"), task("a", **URL), task("b", BACK), task("c")], True),
        ([task("a"), task("b", rule("{{ true }}", "jump", to="a"))], True),
        ([task("a"), task("b", rule(OK, "jump", to="a"), rule(ERROR, "jump", to="a"))], True),
        ([{"while": "{{ true }}", "do": [task("a", **URL)]}], True),
        ([task("a"), task("b", rule("{{ iter.n < 3 }}", "jump", to="a"), rule(None, "break"))], False),
        ([task("a", rule(ERROR, "break"), rule(None, "continue"), **URL), task("b", BACK)], False),
        ([task("a", **URL), task("b", rule(OK, "jump", to="a"), rule(None, "fail"))], False),
        ([task("a", kind="wait", duration=5), task("b", BACK)], False),
        ([task("a", kind="playbook", path="x"), task("b", BACK)], False),
        ([task("c"), task("b", rule(None, "jump", to="a")), task("a")], False),
        ([{"while": "{{ iter.n < 3 }}", "do": [task("a")]}], False),
        ([{"until": "{{ a.done }}", "do": [task("a")]}], False),
        ([task("a", rule(None, "retry", attempts=3, delay=1))], False),
    ],
)
def test_only_pipelines_that_can_never_end_are_reported(tool: list[Any], endless: bool) -> None:
    _, found = check(yaml.safe_dump({**HEAD, "workflow": [{"step": "s", "tool": tool}]}, sort_keys=False))
    assert ("W519" in {d.code for d in found}) == endless, [str(d) for d in found]
