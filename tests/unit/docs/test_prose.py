"""Rules of prose: each finds its example, names the line and the remedy, and accepts good sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import prose

MODULE = '''"""Finds cycles."""

LIMIT_S = 5
"""{}"""


class Found:
    """A finding."""

    def cost(self) -> int:
        """Return the cost."""
'''
LONG = "It runs " + "and runs " * 22 + "on."


def code(text: str) -> list[prose.Finding]:
    return list(prose.check_code(text))


def page(text: str) -> list[prose.Finding]:
    return list(prose.check_page(text))


@pytest.mark.parametrize("first", ["What", "Where", "How", "Whether", "Who", "Whom", "Whose", "Which", "When", "Of", "So many"])
@pytest.mark.parametrize("good", ["Finds cycles.", "Seconds that a call takes.", "A finding.", "Return the cost."])
def test_a_docstring_does_not_begin_with_a_clause(first: str, good: str) -> None:
    whole = MODULE.replace("{}", "Seconds that a call takes.")
    assert code(whole) == []
    (found,) = code(whole.replace(good, f"{first} runs that end."))
    assert found.rule == "first-word"
    assert found.line == whole[: whole.index(good)].count("\n") + 1
    assert f"'{first}'" in found.message and "Return" in found.message


@pytest.mark.parametrize(
    "clause", ["what_is_old", "who_runs_nothing", "of_two_writers_one", "how_many_rows", "whoever_asks", "so_many_rows"]
)
def test_the_name_of_a_test_does_not_begin_with_a_clause(clause: str) -> None:
    assert code("async def test_old_values() -> None: ...") == []
    (found,) = code(f"import json\n\nclass T:\n    async def test_{clause}_wins() -> None: ...")
    assert (found.line, found.rule) == (4, "test-name")
    assert f"test_{clause}_wins" in found.message


@pytest.mark.parametrize(
    "text", ["x = '# What it is'", 'x = f("What is it?")', 'def f() -> str:\n    return "When"', 'x: str = """\nWhat"""']
)
def test_other_texts_may_begin_with_a_clause(text: str) -> None:
    assert code(text) == []


@pytest.mark.parametrize(
    ("odd", "remedy"),
    [
        ("it waits for ever", "forever"),
        ("it begins anew", "again"),
        ("the record is made anew", "recreated"),
        ("the run is under way", "in progress"),
        ("reads so many rows", "the name of the number"),
        ("the how manieth it is", "the number of"),
        ("whoever asks", "caller"),
        ("it switches them off", "disable"),
        ("it was switched on", "enable"),
        ("the place behind an event", "after an event"),
        ("a decision is taken again", "repeated"),
        ("a place is asked for", "is requested"),
        ("moved by hand", "manually"),
    ],
)
def test_an_odd_word_is_found_in_docstrings_and_pages(odd: str, remedy: str) -> None:
    (in_code,) = code(MODULE.replace("{}", f"Seconds.\n\nThen {odd}."))
    assert (in_code.line, in_code.rule) == (6, "word") and remedy in in_code.message
    (in_page,) = page(f"# Title\n\nOne line.\nThen {odd}.\n")
    assert (in_page.line, in_page.rule) == (4, "word") and remedy in in_page.message


def test_a_word_is_not_found_in_code_nor_where_it_is_right() -> None:
    assert (
        page("Use `for ever`.\n\n```\nanew\n```\n\n<!-- anew -->\n\n~~~yaml\nwhoever: 1\n~~~\n\nSo many died that it stopped.\n")
        == []
    )


@pytest.mark.parametrize("first", ["What", "what", "whether", "Of", "which", "whoever"])
@pytest.mark.parametrize(
    "comment", ["    # {} runs", "    x = 1  # {} runs", "    # --- {} runs ---", "    x = 1  # type: ignore[misc]  # {} runs"]
)
def test_a_comment_does_not_begin_with_a_clause(first: str, comment: str) -> None:
    assert code(f"def f() -> None:\n{comment.format('the task')}\n    pass\n") == []
    found = code(f"def f() -> None:\n{comment.format(first)}\n    pass\n")
    assert found[0].line == 2 and found[0].rule == ("word" if first == "whoever" else "first-word")
    assert f"'{first}'" in found[0].message


def test_a_comment_of_several_lines_has_one_first_word() -> None:
    assert code("# The run ends\n# when its task ends.\nx = 1  # the run\n") == []
    (found,) = code("x = 1  # the run\n# when its task ends\n")
    assert (found.line, found.rule) == (2, "first-word")


@pytest.mark.parametrize(
    ("comment", "line", "rule"),
    [("# The run\n# begins anew.", 2, "word"), ("# It is the\n# the run.", 1, "twice"), ("x = 1  # by by", 1, "twice")],
)
def test_words_of_comments_are_checked(comment: str, line: int, rule: str) -> None:
    (found,) = code(f"{comment}\n")
    assert (found.line, found.rule) == (line, rule)
    assert code("x = 1  # `anew`\nanew = '# anew'\n") == []


@pytest.mark.parametrize(
    "text", ['raise E("it begins anew")', 'raise E(f"{name} begins anew")', 'x = (\n    "a"\n    " begins anew")']
)
def test_words_of_messages_are_checked(text: str) -> None:
    (found,) = prose.check_code(f"\n{text}\n", messages=True)
    assert found.rule == "word" and "again" in found.message and found.line in {2, 3}
    assert code(text) == []
    assert list(prose.check_code("anew = x['anew']\n", messages=True)) == []


def test_a_help_text_does_not_begin_with_a_clause() -> None:
    assert list(prose.check_code('x = Option(help="Number of runs")', messages=True)) == []
    (found,) = prose.check_code('import a\n\nx = Option(help="How many runs")', messages=True)
    assert (found.line, found.rule) == (3, "first-word") and "help text" in found.message


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("// What runs.", "first-word"),
        ("/** Whether it runs. */", "first-word"),
        ("/* Of a page. */", "first-word"),
        ("let a = 1; // how it runs", "first-word"),
        ("// The run\n// begins anew.", "word"),
        ("/** The run\n * the run\n * the the run. */", "twice"),
        ("const text = `It waits for ever`;", "word"),
    ],
)
def test_scripts_and_style_sheets_are_checked(text: str, rule: str) -> None:
    (found,) = prose.check_script(f"let b;\n\n{text}\n")
    assert found.rule == rule
    assert found.line == 3 + (text.count("\n") if rule != "first-word" else 0)


def test_a_good_script_passes() -> None:
    text = "// The run\n// which ends.\nconst a = 'https://what.example'; // runs\n/** Return it. */\nconst what = () => b; /* c */\n"
    assert list(prose.check_script(text)) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("# What runs", "first-word"),
        ("a: 1 # of a run", "first-word"),
        ("# --- how it runs ---", "first-word"),
        ("a:\n  # by hand\n", "word"),
        ("Description: Whether it runs", "first-word"),
        ("Description: >-\n  Who runs it", "first-word"),
        ("{ description: 'Where it is' }", "first-word"),
        ("Description: Runs it anew", "word"),
    ],
)
def test_settings_are_checked(text: str, rule: str) -> None:
    (found,) = prose.check_settings(f"b: 1\n{text}\n")
    assert found.rule == rule
    assert found.line == (3 if "by hand" in text else 2)


def test_good_settings_pass() -> None:
    text = (
        "#!/bin/sh\n# The run\n# which ends\nurl: https://example.org/#what\nDescription: Seconds of a run # the most\nwhat: 1\n"
    )
    assert list(prose.check_settings(text)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("template.yaml", "# What"),
        ("pyproject.toml", "# What"),
        ("Makefile", "# What"),
        (".github/workflows/test.yml", "# What"),
        ("docs/.nav.yml", "# What"),
        ("actions/a/action.yml", "# What"),
        ("plugins/a/pyproject.toml", "# What"),
        ("examples/a/playbook.yaml", "# What"),
        ("examples/a/data.py", '"""What"""'),
        ("console/noetl_console/static/pages/a.js", "// What"),
        ("console/noetl_console/static/css/a.css", "/* What */"),
        ("cli/a.py", 'x = "it is anew"'),
    ],
)
def test_each_kind_of_file_is_found(tmp_path: Path, name: str, text: str) -> None:
    for page_name in ("README.md", "CONTRIBUTING.md"):
        (tmp_path / page_name).write_text("It is well.\n")
    for path in (
        tmp_path / name,
        *(tmp_path / other for other in ("console/noetl_console/static/vendor/a", "tests/a", "docs/a")),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "console/noetl_console/static/vendor/a.js").write_text("// What\n")
    (tmp_path / "tests/a.py").write_text('x = "it is anew"\n')
    assert list(prose.check(tmp_path)) == []
    (tmp_path / name).write_text(f"{text}\n")
    (found,) = prose.check(tmp_path)
    assert found.startswith(f"{name}:1: ")


def test_a_word_twice_is_found() -> None:
    (found,) = code(MODULE.replace("{}", "Seconds that that the\nthe call takes."))
    assert (found.line, found.rule) == (5 - 1, "twice") and "'the'" in found.message
    (found,) = page("A page.\n\n* An item is\n  is here.\n")
    assert (found.line, found.rule) == (3, "twice")
    assert page("# The store\nThe store holds it.\n\n| a | a |\n|---|---|\n| a | a |\n\n* one\n* one\n") == []


@pytest.mark.parametrize(
    "text", [f"{LONG}", f"* {LONG}", f"1. {LONG}", f"| a | {LONG} |\n|---|---|", f"Short. {LONG} Short.", f"# {LONG}"]
)
def test_a_long_sentence_is_found(text: str) -> None:
    (found,) = page(f"A page.\n\n{text}\n")
    assert (found.line, found.rule) == (3, "long")
    assert "47 words" in found.message and "divide" in found.message


def test_code_links_and_ends_of_sentences_do_not_make_a_sentence_long() -> None:
    half = "It runs " + "and runs " * 12 + "on"
    assert page(f"{half}. {half}.\n\n{half}\n\n{half}\n") == []
    assert page(f"{half} `{LONG}` {half[:40]}.\n") == []
    assert page(f"{half}. `code` begins here: {half}.\n") == []
    assert page(f"{half} [a link]({'https://example.org/' + LONG.replace(' ', '/')}).\n") == []


def test_an_unclosed_quote_of_code_ends_with_its_paragraph_and_its_row() -> None:
    (found,) = page("It is `open.\n\nIt begins anew and `closed` too.\n")
    assert (found.line, found.rule) == (3, "word")
    (found,) = page("| a |\n|---|\n| it is `open |\n| it begins anew, `closed` |\n")
    assert (found.line, found.rule) == (4, "word")


def test_findings_are_printed_with_file_line_rule_and_remedy_and_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "cli").mkdir()
    (tmp_path / "README.md").write_text("It is\nwell.\n")
    (tmp_path / "docs" / "index.md").write_text("It is well.\n")
    (tmp_path / "cli" / "module.py").write_text('"""Runs it."""\n')
    (tmp_path / "CONTRIBUTING.md").write_text("It is well.\n")
    assert prose.main(tmp_path) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / "docs" / "index.md").write_text("It is well.\n\nIt begins anew.\n")
    (tmp_path / "cli" / "module.py").write_text('"""What it is."""\n')
    assert prose.main(tmp_path) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("cli/module.py:1: first-word: the docstring begins with 'What'")
    assert second == "docs/index.md:3: word: 'anew'; use: again"


@pytest.mark.parametrize(
    "line",
    [
        "given = payload()",
        "    _said: Mapping[str, Any] = {}",
        "def given(self) -> int: ...",
        "async def call(self, given: str) -> None: ...",
        "names = [NAME.key for NAME in found]",
        "if (NAME := payload()) is not None: ...",
    ],
)
def test_a_name_that_says_how_its_value_arrived_is_found(line: str) -> None:
    (found,) = code(f"{MODULE}\n{line.replace('NAME', 'said')}\n")
    assert found.rule == "name" and found.line == MODULE.count("\n") + 2


@pytest.mark.parametrize("line", ["@given(integers())", "given_up = 1", "forgiven = 2", "call(given=1)", "self.given_up = 3"])
def test_a_name_with_such_a_part_is_allowed(line: str) -> None:
    assert code(f"{MODULE}\n{line}\n") == []


def test_the_comment_below_the_first_line_of_a_script_is_checked() -> None:
    (found,) = prose.check_settings("#!/usr/bin/env bash\n# Where the files are.\nls\n")
    assert (found.rule, found.line) == ("first-word", 2)
