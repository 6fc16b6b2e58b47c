"""Findings as authors meet them: silent on good playbooks, silenced by a comment, shown in every form, and quickly there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.validate import large
from hypothesis import given

from noetl_core.dsl.dump import dump
from noetl_core.dsl.lint import lint
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check, read
from noetl_core.dsl.reading.diagnostics import CODES, to_json, to_sarif
from tests.call_counts import calls_of
from tests.commands import in_process
from tests.properties import examples
from tests.unit.control.local_api import Asker
from tests.unit.dsl.broken_playbooks import flow
from tests.unit.dsl.models import playbooks

ROOT = Path(__file__).parents[3]
FOUND = (*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("tests/unit/spec_examples/playbooks/*.yaml"))
GOOD = sorted(file for file in FOUND if not file.name.endswith(".test.yaml"))
LOST = flow("{step: a, tool: {kind: noop}}", "{step: b, tool: {kind: noop}}")
"""A playbook with an unreachable step."""


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_examples_and_the_specification_give_no_findings(file: Path) -> None:
    left_out = {"W526"} if file.parent.name == "playbooks" else set()  # programs of the specification call what it does not show
    found = check(file.read_text(), file.name)[1]
    assert [str(d) for d in found if d.severity != "note" and d.code not in left_out] == []


def test_a_comment_silences_its_codes_on_its_line() -> None:
    silent = LOST.replace("step: b, tool: {kind: noop}}", "step: b, tool: {kind: noop}} # noetl: ignore W501")
    assert check(silent)[1] == []
    assert [d.code for d in check(silent.replace("W501", "W501, W515"))[1]] == ["W518"]


@pytest.mark.parametrize(
    ("comment", "message", "hint"),
    [
        ("W502", "no finding on this line has the code W502", "remove the comment"),
        ("W4022", '"W4022" is not a code', 'did you mean "W402"?'),
        ("", "this comment names no code", "# noetl: ignore W501"),
        ("E201", "E201 is an error: it cannot be ignored", "correct it"),
    ],
)
def test_a_comment_that_silences_nothing_is_found(comment: str, message: str, hint: str) -> None:
    (found,) = check(flow("{step: a, tool: {kind: noop}} # noetl: ignore " + comment))[1]
    assert (found.code, found.line, found.col, found.message, found.hint) == ("W518", 5, 35, message, hint)


def test_an_error_is_not_silenced() -> None:
    playbook, found = check(flow("{step: a, tool: {kind: htpp}} # noetl: ignore E118"))
    assert playbook is None
    assert [d.code for d in found] == ["E118", "W518"]


def test_text_that_looks_like_a_comment_is_none() -> None:
    text = flow(
        "step: a\ntool:\n  kind: python\n  code: |\n    # noetl: ignore W501\n    x = 1",
        "step: b\ntool: {kind: noop, result: '# noetl: ignore W501'}",
    )
    assert [d.code for d in check(text)[1]] == ["W501"]


def test_json_and_sarif_name_the_page() -> None:
    found = check(LOST, "flow.yaml")[1]
    page = "docs/language/lint/W501.md"
    assert [one["page"] for one in json.loads(to_json(found))] == [page]
    run = json.loads(to_sarif(found))["runs"][0]
    assert run["tool"]["driver"]["rules"] == [{"id": "W501", "shortDescription": {"text": CODES["W501"]}, "helpUri": page}]
    assert run["results"][0]["level"] == "warning"


def test_validate_shows_warnings_and_fails_on_them_only_when_asked(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(LOST)
    run = in_process("validate", str(file))
    assert run.exit_code == 0
    assert 'flow.yaml:6:12 W501 step "b" is never reached' in run.stdout
    assert "docs/language/lint/W501.md" in run.output
    assert in_process("validate", "--strict", str(file)).exception is not None
    assert in_process("validate", "--strict", str(GOOD[0])).exit_code == 0


def test_the_api_returns_them_with_a_valid_playbook(tmp_path: Path) -> None:
    answer = Asker(tmp_path)("POST", "playbooks/validate", {"playbook": LOST})
    assert answer.status == 200
    assert answer.body["valid"] is True
    found = [(d["code"], d["severity"], d["line"], d["page"]) for d in answer.body["diagnostics"]]
    assert found == [("W501", "warning", 6, "docs/language/lint/W501.md")]


# --- a thousand steps ---------------------------------------------------------------------------------------------------


def linted(text: str) -> tuple[int, list[str]]:
    """The calls that lint makes, and what it says."""
    r, playbook = read(text, "flow.yaml")
    assert playbook is not None
    return calls_of(lambda: lint(r, playbook)), [str(d) for d in r.diagnostics]


@pytest.mark.nightly
def test_the_analysis_of_a_thousand_steps_costs_little_more_than_reading_them() -> None:
    text = large(1000)
    work, findings = linted(text)
    assert findings == []
    assert work < 1.5 * calls_of(lambda: read(text, "large.yaml"))


@pytest.mark.nightly
def test_its_work_grows_with_the_size_and_not_with_its_square() -> None:
    """Forks that meet, chained: the shape that asks most of the analysis of the net."""

    def work(diamonds: int) -> int:
        steps = []
        for i in range(diamonds):
            steps += [
                f"step: f{i}\nnext: {{spec: {{mode: inclusive}}, arcs: [{{step: a{i}}}, {{step: b{i}}}]}}",
                f"step: a{i}\nnext: {{arcs: [{{step: j{i}}}]}}",
                f"step: b{i}\nnext: {{arcs: [{{step: j{i}}}]}}",
                f"step: j{i}\nspec: {{join: {{count: 2}}}}\ntool: {{kind: noop}}"
                + (f"\nnext: {{arcs: [{{step: f{i + 1}}}]}}" if i + 1 < diamonds else ""),
            ]
        return linted(flow(*steps))[0]

    work(10)
    assert work(250) < 5.5 * work(50)


@pytest.mark.nightly
def test_a_net_made_to_cost_much_is_left_alone() -> None:
    """Every join's tokens come by all steps before it: what would take time with the square of the steps is given up."""

    def work(size: int) -> int:
        arcs = "next: {{spec: {{mode: inclusive}}, arcs: [{{step: s{j}}}, {{step: s{k}}}]}}"
        steps = [f"step: s{i}\nspec: {{join: {{count: 9}}}}\n" + arcs.format(j=i + 1, k=i + 2) for i in range(size)]
        return linted(flow(*steps, *(f"step: s{i}\ntool: {{kind: noop}}" for i in (size, size + 1))))[0]

    assert work(1500) < 4 * work(500)


@pytest.mark.nightly
@examples(25)
@given(playbooks())
def test_every_valid_playbook_is_linted_without_a_stumble(playbook: Playbook) -> None:
    read, found = check(dump(playbook))
    assert read == playbook
    assert all(d.code in CODES and d.line > 0 and d.col > 0 and d.message for d in found)
