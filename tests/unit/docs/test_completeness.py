"""The language reference names every key, directive, reducer and error kind there is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from noetl_core.dsl.fields.flow import ARC, LOOP_POLICY, REDUCERS, ROUTER_POLICY, STEP, STEP_POLICY
from noetl_core.dsl.fields.playbook import EXECUTOR_POLICY, LIMITS_BLOCK, ROOT
from noetl_core.dsl.fields.policies import BACKOFFS, DIRECTIVES, TASK_POLICY, THEN
from noetl_core.dsl.kinds import COMMON_SPEC, KINDS
from noetl_core.dsl.model import Limits
from noetl_core.dsl.steps.specs import EXECUTOR_KEYS, LOOP_KEYS, STEP_KEYS
from noetl_core.dsl.steps.tasks import RESERVED, TASK_KEYS
from noetl_core.engine.outcome import ERROR_KINDS, RETRYABLE_KINDS

FOLDER = Path(__file__).parents[3] / "docs/language"
LIMITS = Limits()


def text(page: str) -> str:
    return (FOLDER / page).read_text()


def words(page: str) -> set[str]:
    return set(re.findall(r"[\w.]+", text(page))) | set(re.findall(r"\w+", text(page)))


@pytest.mark.parametrize(
    ("page", "keys"),
    [
        ("playbook.md", ROOT.keys),
        ("playbook.md", EXECUTOR_KEYS - {"policy"}),
        ("playbook.md", EXECUTOR_POLICY.keys - set(EXECUTOR_POLICY.idle)),
        ("policies.md", EXECUTOR_POLICY.keys),
        ("playbook.md", LIMITS_BLOCK.keys),
        ("steps.md", STEP.keys),
        ("steps.md", STEP_KEYS),
        ("steps.md", STEP_POLICY.keys),
        ("policies.md", STEP_POLICY.keys),
        ("arcs.md", ARC.keys),
        ("arcs.md", ROUTER_POLICY.keys),
        ("loops.md", LOOP_KEYS),
        ("loops.md", LOOP_POLICY.keys),
        ("loops.md", REDUCERS),
        ("policies.md", THEN.keys),
        ("policies.md", (*DIRECTIVES, *BACKOFFS, *TASK_POLICY.idle)),
        ("tasks.md", TASK_KEYS),
        ("tasks.md", COMMON_SPEC),
        ("names.md", RESERVED - {"output", "loop"}),
        ("results.md", ERROR_KINDS),
    ],
)
def test_the_page_names_every_key(page: str, keys: Iterable[str]) -> None:
    assert sorted(set(keys) - words(page)) == []


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"workbook"}))
def test_every_kind_is_described_with_its_inputs_and_options(kind: str) -> None:
    described = KINDS[kind]
    page = described.page.partition("#")[0]
    assert sorted((described.inputs | set(described.aliases) | described.spec) - words(page)) == []


def test_limits_and_their_defaults() -> None:
    shown = dict(re.findall(r"^\| `(max_\w+)` \| ([\d,]+) \|", text("playbook.md"), re.MULTILINE))
    assert {name: int(n.replace(",", "")) for name, n in shown.items()} == {n: getattr(LIMITS, n) for n in Limits.__match_args__}


def test_the_page_states_which_errors_are_retryable() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|[^|]+\| (yes|no) \|$", text("results.md"), re.MULTILINE)
    shown = {kind: word == "yes" for kinds, word in rows for kind in re.findall(r"`(\w+)`", kinds)}
    assert shown == {kind: kind in RETRYABLE_KINDS for kind in ERROR_KINDS}
