"""Checks the prose of docstrings and pages: `python -m tests.prose`, a part of `make lint`.

Prints `file:line: rule: what is wrong; the remedy` for each finding, and ends with 1 if there is one. Code in pages is not checked.
CONTRIBUTING.md lists the rules, `RULES` describes them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
CODE: Final = ("layers/noetl_core", "cli", "console/noetl_console", "infra", "plugins", "functions", "bench", "tests")
PAGES: Final = ("README.md", "CONTRIBUTING.md", "docs")
RULES: Final[Mapping[str, str]] = {
    "first-word": "a docstring begins with a verb or a noun, not with a clause",
    "test-name": "the name of a test has a noun as its subject, not a clause",
    "word": "the word has a plain or a usual form",
    "long": "a sentence of a page has at most `LONGEST` words",
    "twice": "a word stands twice in a row",
}
LONGEST: Final = 45
"""Words of a sentence of a page. Words in code, and numbers, count as one each."""
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_CLAUSE: Final = re.compile(r"(What|Where|How|Whether|Who|Whom|Whose|Which|When|Of|So many)\b")
_OPENS_WITH_CLAUSE: Final = re.compile(rf"[\"']\s*{_CLAUSE.pattern}")
_CLAUSES: Final = "what|of|whom?|whose|whoever|how|whether|so_many"
_TEST_NAME: Final = re.compile(rf"^ *(?:async )?def (test_(?:{_CLAUSES})_\w+_\w+)", re.MULTILINE)
_WORDS: Final[Mapping[str, str]] = {
    r"for ever": "forever",
    r"anew": "again",
    r"made anew": "recreated",
    r"under way": "in progress",
    r"so many(?![^.;:]*? that\b)": "the name of the number",
    r"how manieth": "the number of",
    r"whoever": "the noun: caller, reader, operator",
    r"switch(?:es|ed)? (?:it |them )?o(?:n|ff)": "enable, disable",
    r"behind an event": "after an event",
    r"taken again": "repeated",
    r"is asked for": "is requested",
    r"by hand": "manually",
}
"""Words that are never right -> the words to use."""
_WORD: Final = re.compile(rf"\b(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})\b", re.IGNORECASE)
_TWICE: Final = re.compile(r"\b([A-Za-z]+)\s+\1\b", re.IGNORECASE)
_MAY_REPEAT: Final = frozenset({"that", "had", "test"})
"""Words that may stand twice; `test test` is a test of templates."""
_FENCE: Final = re.compile(r"^[ ]*(```+|~~~+)[^\n]*\n.*?^[ ]*\1[ ]*$", re.DOTALL | re.MULTILINE)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_SPAN: Final = re.compile(r"(`+)(?!`)(?:(?!\n\s*[\n|]).)+?(?<!`)\1(?!`)", re.DOTALL)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM: Final = re.compile(r"\s*(?:[*+-]|\d+\.)\s+|\s*#+\s+|\s*>\s*")
_END: Final = re.compile(r"(?<=[.!?])[*_\"')\]]*\s+(?=[*_\"'(\[]*[A-Z`])")


class Finding(NamedTuple):
    """A violation of a rule. `line` is from 1."""

    line: int
    rule: str
    message: str


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, of its classes and functions, and the texts after assignments, each with its line."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        before: ast.AST | None = node if isinstance(node, _DOCUMENTED) else None
        for statement in getattr(node, "body", ()):
            if isinstance(statement, ast.Expr):
                if before is not None and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                    yield statement.lineno, statement.value.value
            elif hasattr(statement, "body"):
                nodes.append(statement)
            before = statement if isinstance(statement, ast.Assign | ast.AnnAssign) else None


def check_code(source: str) -> Iterator[Finding]:
    """Check the docstrings of a module, and the names of its tests. Sources without suspect text are not parsed, which takes two
    thirds of the time."""
    for name in _TEST_NAME.finditer(source):
        line = source.count("\n", 0, name.start(1)) + 1
        yield Finding(line, "test-name", f"{name[1]} has a clause as its subject; name it: test_expired_values_are_not_listed")
    if not any(pattern.search(source) for pattern in (_OPENS_WITH_CLAUSE, _WORD, _TWICE)):
        return
    for line, text in docstrings(ast.parse(source)):
        first = _CLAUSE.match(text.lstrip())
        if first is not None:
            remedy = "begin with a noun and its unit, or with a verb: Return, Seconds that, True if"
            yield Finding(line, "first-word", f"the docstring begins with {first[0]!r}; {remedy}")
        yield from _words(_blank(_SPAN, text), line)


def check_page(text: str) -> Iterator[Finding]:
    """Check a page of Markdown: its paragraphs, items, headings and cells of tables."""
    for pattern in (_FENCE, _COMMENT):
        text = _blank(pattern, text)
    for line, block in _blocks(_SPAN.sub(lambda span: "`" + "\n" * span[0].count("\n"), text)):
        yield from _words(block, line)
        at = 0
        for sentence in _END.split(_LINK.sub(r"\1", block)):
            count = len(re.findall(r"[\w`][^\s]*", sentence))
            if count > LONGEST:
                start = line + block[: block.find(sentence[:20], at)].count("\n")
                begin = " ".join(sentence.split()[:6])
                yield Finding(start, "long", f"a sentence of {count} words, {begin!r} ...; divide it: {LONGEST} are the most")
            at += len(sentence)


def _words(text: str, line: int) -> Iterator[Finding]:
    for found in _WORD.finditer(text):
        remedy = next(use for word, use in _WORDS.items() if re.fullmatch(word, found[0], re.IGNORECASE))
        yield Finding(line + text.count("\n", 0, found.start()), "word", f"{found[0]!r}; use: {remedy}")
    for found in _TWICE.finditer(text):
        if found[1].lower() not in _MAY_REPEAT:
            yield Finding(line + text.count("\n", 0, found.start()), "twice", f"{found[1]!r} stands twice; delete one")


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Return `text` without the matches of a pattern; its lines keep their numbers."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n") or "`", text)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs, items, headings and cells, each with the number of its first line."""
    begin, lines, heading = 0, list[str](), False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        item, is_row = _ITEM.match(line), line.lstrip().startswith("|")
        if lines and (not line.strip() or item is not None or is_row or heading):
            yield begin, "\n".join(lines)
            lines = []
        heading = line.startswith("#")
        if is_row:
            yield from ((number, cell) for cell in line.split("|"))
        elif line.strip():
            if not lines:
                begin = number
            lines.append(line[item.end() :] if item is not None else line)


def check(root: Path) -> Iterator[str]:
    """Yield the findings of the repository, as lines of text."""
    for folder in CODE:
        for path in sorted((root / folder).rglob("*.py")):
            yield from _report(path, root, list(check_code(path.read_text())))
    for name in PAGES:
        for path in sorted((root / name).rglob("*.md")) if (root / name).is_dir() else [root / name]:
            yield from _report(path, root, list(check_page(path.read_text())))


def _report(path: Path, root: Path, findings: Sequence[Finding]) -> Iterator[str]:
    for found in sorted(findings):
        yield f"{path.relative_to(root)}:{found.line}: {found.rule}: {found.message}"


def main(root: Path = ROOT) -> int:
    """Print the findings. Return the exit code."""
    findings = list(check(root))
    sys.stdout.writelines(f"{line}\n" for line in findings)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
