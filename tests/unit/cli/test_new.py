"""`noetl new`: every template becomes a playbook that is valid, formatted and tested, and nothing is overwritten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import Result

from noetl_cli.commands.authoring.new import TEMPLATES
from noetl_cli.errors import Exit
from noetl_core.dsl.parse import parse_playbook
from tests import commands

NAMES = sorted(folder.name for folder in TEMPLATES.iterdir())
README_LINES = 25


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def done(*arguments: str) -> Result:
    result = commands.in_process(*arguments)
    assert result.exception is None, (arguments, result.output, result.exception)
    return result


def refusal(*arguments: str) -> str:
    error = commands.in_process(*arguments).exception
    assert isinstance(error, Exit)
    assert error.code == 2
    return error.message


def test_there_are_nine_templates() -> None:
    assert NAMES == ["agent", "approval", "children", "etl", "files", "llm", "quality", "schedule", "webhook"]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("template", NAMES)
def test_a_template_goes_from_new_to_a_green_test(template: str) -> None:
    folder = Path("team/flow")
    written = done("new", str(folder), "--template", template).output.splitlines()
    assert written[:-2] == sorted(str(folder / file.name) for file in (TEMPLATES / template).iterdir())
    assert "file(s), 0 error(s), 0 warning(s)" in done("validate", "--strict", str(folder)).output
    done("fmt", "--check", str(folder))
    assert " passed in " in done("test", str(folder)).stdout
    for file in folder.glob("*.yaml"):
        assert "templates/" not in file.read_text(), file
        if not file.name.endswith(".test.yaml"):
            model = parse_playbook(file.read_text())
            assert model.executor.strict is True, file
            assert model.path.startswith("team/flow"), file
    readme = (folder / "README.md").read_text()
    assert readme.startswith("# flow\n")
    assert "templates/" not in readme
    assert readme.count("\n") <= README_LINES


def test_templates_are_listed_with_a_line_each() -> None:
    lines = done("new").stdout.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert all(len(line.split()) > 3 for line in lines)


def test_an_unknown_template_is_refused_with_the_nearest_one_and_the_list(empty: Path) -> None:
    message = refusal("new", "flow", "--template", "aproval")
    assert message.startswith("there is no template aproval (did you mean approval?)\nagent ")
    assert refusal("new", "flow").startswith("which template? noetl new flow --template TEMPLATE\nagent ")
    assert list(empty.iterdir()) == []


def test_nothing_is_overwritten(empty: Path) -> None:
    folder = empty / "flow"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    assert (
        refusal("new", "flow", "--template", "etl")
        == "flow/README.md: already there, and nothing is overwritten (choose another name)"
    )
    assert [file.name for file in folder.iterdir()] == ["README.md"]
    (folder / "README.md").rename(folder / "notes.md")
    done("new", "flow", "--template", "etl")
    assert (folder / "notes.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "path"),
    [("flow", "flow"), ("reports/daily", "reports/daily"), (".", "here"), ("../beside", "beside"), ("123", "123")],
)
def test_the_path_of_the_playbook_is_the_folder(name: str, path: str, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty / "here").mkdir()
    monkeypatch.chdir(empty / "here")
    done("new", name, "--template", "children")
    model = parse_playbook((Path(name) / "playbook.yaml").read_text())
    assert (model.path, model.name) == (path, path.split("/")[-1])
    assert parse_playbook((Path(name) / "region.yaml").read_text()).path == f"{path}/region"


def test_a_name_that_cannot_be_a_path_is_refused(empty: Path) -> None:
    assert refusal("new", "a b", "--template", "etl").startswith("'a b' cannot be the path of a playbook")
    assert list(empty.iterdir()) == []


def test_the_page_about_the_agent_shows_its_playbook() -> None:
    page = (Path(__file__).parents[3] / "docs/agent.md").read_text()
    template = " ".join((TEMPLATES / "agent/playbook.yaml").read_text().split())
    shown = [" ".join(block.split()) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    assert len(shown) == 5
    assert [block for block in shown if block not in template and "server: post" not in block] == [
        block for block in shown if "tool.server" in block
    ]
