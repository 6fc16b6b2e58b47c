"""Names that documents and docstrings give exist: code in the glossary and in the architecture, sections and texts that code cites."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.docs import layers

ROOT = Path(__file__).parents[3]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGE = ROOT / "layers" / "noetl_core" / "noetl_core"
FIRST = sorted(p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists())


def resolved(name: str) -> object:
    """Return the object with `name`, below `noetl_core`. Raises `ImportError`, `AttributeError`."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(["noetl_core", *parts[:end]]))
        except ModuleNotFoundError as missing:
            if missing.name is None or not missing.name.startswith("noetl_core"):
                raise
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise ImportError(f"noetl_core.{name} does not exist")


def names_in(text: str) -> list[str]:
    return [n for n in re.findall(r"`([a-z_][\w.]*)`", text) if n.split(".")[0] in FIRST]


def section(text: str, title: str) -> str:
    return text.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def terms() -> Iterator[tuple[str, str, str]]:
    for title in ("The language", "Event sourcing", "Petri nets", "AWS and Python"):
        for row in section(GLOSSARY, title).splitlines():
            if row.startswith("| ") and not row.startswith("| term "):
                term, meaning, where = (cell.strip() for cell in row.strip("|").split("|"))
                yield term, meaning, where


@pytest.mark.parametrize(("term", "meaning", "where"), [pytest.param(*row, id=row[0]) for row in terms()])
def test_a_term_is_explained_in_one_sentence_and_lives_where_the_glossary_says(term: str, meaning: str, where: str) -> None:
    assert meaning.endswith(".") and not re.search(r"[.!?] [A-Z]", meaning)
    named = re.findall(r"`([^`]+)`", where)
    assert named
    for name in named:
        resolved(name)


@pytest.mark.parametrize("title", ["The language", "Event sourcing", "Petri nets", "AWS and Python"])
def test_terms_are_in_alphabetical_order(title: str) -> None:
    rows = re.findall(r"^\| (?!term )([^|]+) \|", section(GLOSSARY, title), re.MULTILINE)
    assert rows == sorted(rows)


def test_the_way_of_one_step_names_functions_that_exist() -> None:
    named = names_in(section(ARCHITECTURE, "The way of one step"))
    assert len(named) > 20
    for name in named:
        resolved(name)


def test_a_name_that_does_not_exist_is_found() -> None:
    with pytest.raises(AttributeError):
        resolved("engine.decide.no_such_function")
    with pytest.raises((ImportError, AttributeError)):
        resolved("engine.no_such_module")


PACKAGES = [
    PACKAGE,
    *sorted(p.parent for p in PACKAGE.rglob("__init__.py") if p.parent != PACKAGE),
]
PACKAGES += [
    ROOT / name
    for name in (
        "cli/noetl_cli",
        "cli/noetl_cli/commands",
        "cli/noetl_cli/commands/authoring",
        "cli/noetl_lsp",
        "cli/noetl_migrate",
        "cli/noetl_import",
        "console/noetl_console",
        "infra/noetl_infra",
    )
]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT)))
def test_the_docstring_of_a_package_names_each_of_its_modules(package: Path) -> None:
    """If it fails, describe the missing module in the docstring in a few words."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = {name.split(".")[0] for name in re.findall(r"`([\w.]+)`", text)}
    modules = {p.stem for p in package.glob("*.py")} | {p.parent.name for p in package.glob("*/__init__.py")}
    assert modules - named - {"__init__"} == set()


# --- citations ----------------------------------------------------------------------------------------------------------

ELSEWHERE = ("DES" + "IGN", "RELI" + "ABILITY", "CONT" + "RACT")
"""Documents that are not in the repository."""


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    for path in tracked():
        if path.suffix in (".py", ".md", ".yaml", ".toml", ".sql", "") and path.name != "LICENSE":
            try:
                yield path, path.read_text()
            except UnicodeDecodeError:
                continue


def test_nothing_cites_documents_that_are_not_in_the_repository() -> None:
    pattern = re.compile(rf"\b({'|'.join(ELSEWHERE)})\b|\bshared/spec\b|\bissue #?\d")
    found = {f"{path.relative_to(ROOT)}: {m.group()}" for path, text in texts() if (m := pattern.search(text))}
    assert found == set()


def test_documents_and_sections_that_code_cites_exist() -> None:
    wrong = []
    for path, text in texts():
        if path.suffix != ".py":
            continue
        for name, title in re.findall(r"(docs/[\w/-]+\.md)(?:, \"([^\"]+)\")?", re.sub(r"\s+", " ", text)):
            document = ROOT / name
            if not document.exists() or (
                title and not re.search(rf"^#+ {re.escape(title)}$", document.read_text(), re.MULTILINE)
            ):
                wrong.append(f"{path.relative_to(ROOT)}: {name} {title}")
    assert wrong == []


def test_sections_of_the_specification_that_code_cites_are_in_the_catalogue() -> None:
    catalogue = ROOT / "tests" / "conformance" / "statements"
    known = {
        text: set(re.findall(r'^  "?([\w.]+)', (catalogue / f"{name}.yaml").read_text(), re.MULTILINE))
        for text, name in (
            ("formal specification", "formal"),
            ("canonical step spec", "canonical"),
            ("resolution", "resolutions"),
        )
    }
    wrong = []
    for path, text in texts():
        if path.suffix != ".py":
            continue
        flat = re.sub(r"\s+", " ", text)
        for which, numbers in re.findall(
            r"(formal specification|canonical step spec|resolution)s? ((?:\d+(?:\.\d+)*(?:, | and |-)?)+)", flat
        ):
            for number in re.findall(r"\d+(?:\.\d+)*", numbers):
                wide, deep = number.split(".")[0], any(s == number or s.startswith(number + ".") for s in known[which])
                if not deep and wide not in {s.split(".")[0] for s in known[which]}:
                    wrong.append(f"{path.relative_to(ROOT)}: {which} {number}")
    assert wrong == []


def test_the_table_of_layers_is_that_of_the_contract() -> None:
    assert layers.PAGE.read_text() == layers.page(), "python -m tests.unit.docs.layers writes it"
