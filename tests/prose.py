"""Checks the prose of docstrings, comments, messages and pages: `python -m tests.prose`, a part of `make lint`.

Prints `file:line: rule: what is wrong; the remedy` for each finding, and ends with 1 if there is one. Code in pages is not checked.
CONTRIBUTING.md lists the rules, `RULES` describes them.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
CODE: Final = ("layers/noetl_core", "cli", "console/noetl_console", "infra", "plugins", "functions", "bench", "examples", "tests")
WITHOUT_MESSAGES: Final = ("examples", "tests", "layers/noetl_core/noetl_core/testing/contracts")
"""Folders whose strings are not messages to users."""
SCRIPTS: Final = (
    ("console/noetl_console/static", "*.js"),
    ("console/noetl_console/static", "*.css"),
    ("editors/vscode/src", "*.js"),
)
"""Folders and patterns of files with comments in the style of C; `vendor` is skipped."""
SETTINGS: Final = (
    (".", "*.toml"),
    (".", "*.yml"),
    (".", ".*.yaml"),
    ("infra", "*/*.yml"),
    ("infra", "*/*.toml"),
    ("console/vendor", "*.sh"),
    ("layers/noetl_core", "*.sh"),
    (".", "template.yaml"),
    (".", "Makefile"),
    ("docs", ".nav.yml"),
    (".github", "**/*.yml"),
    ("actions", "**/*.yml"),
    ("actions", "**/*.sh"),
    ("functions", "**/Makefile"),
    ("layers", "**/Makefile"),
    ("layers/noetl_core", "exclude.txt"),
    ("plugins", "*/pyproject.toml"),
    ("examples", "**/*.yaml"),
    ("cli", "**/*.yaml"),
)
"""Folders and patterns of files whose comments begin with `#`."""
PAGES: Final = ("README.md", "CONTRIBUTING.md", "docs")
RULES: Final[Mapping[str, str]] = {
    "first-word": "a docstring, comment, help text or description begins with a verb or a noun, not with a clause",
    "test-name": "the name of a test has a noun as its subject, not a clause",
    "name": "a name says what it holds, not how that arrived",
    "word": "the word has a plain or a usual form",
    "long": "a sentence of a page has at most `LONGEST` words",
    "twice": "a word stands twice in a row",
}
LONGEST: Final = 45
"""Words of a sentence of a page. Words in code, and numbers, count as one each."""
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_CLAUSE: Final = re.compile(r"(What|Where|How|Whether|Who|Whom|Whose|Which|When|Of|So many)\b")
_OPENS_WITH_CLAUSE: Final = re.compile(rf"[\"']\s*{_CLAUSE.pattern}")
_COMMENT_CLAUSE: Final = re.compile(rf"(?:-+ )?(?i:{_CLAUSE.pattern})")
_OPENS_COMMENT: Final = re.compile(rf"#[ ]+{_COMMENT_CLAUSE.pattern}")
_HELP: Final = re.compile(rf"\bhelp=\s*f?[\"']{_CLAUSE.pattern}")
_DESCRIPTION: Final = re.compile(rf"\b[Dd]escription: (?:>-\s+|[\"'])?{_CLAUSE.pattern}")
_CLAUSES: Final = "what|of|whom?|whose|whoever|how|whether|so_many"
_TEST_NAME: Final = re.compile(rf"^ *(?:async )?def (test_(?:{_CLAUSES})_\w+_\w+)", re.MULTILINE)
_ARRIVED: Final = "_?(?:said|given)"
_NAME: Final = re.compile(
    rf"^ *({_ARRIVED})(?:: [^=\n]+)? = |^ *(?:async )?def ({_ARRIVED})\(|^ *(?:async )?def [^\n]*[(,] ?({_ARRIVED})\b"
    rf"|\bfor ({_ARRIVED}) in\b|\(({_ARRIVED}) := ",
    re.MULTILINE,
)
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
_TWICE_IN_SOURCE: Final = re.compile(r"\b([A-Za-z]+)\s+(?:# )?\1\b", re.IGNORECASE)
_MAY_REPEAT: Final = frozenset({"that", "had", "test"})
"""Words that may stand twice; `test test` is a test of templates."""
_FENCE: Final = re.compile(r"^[ ]*(```+|~~~+)[^\n]*\n.*?^[ ]*\1[ ]*$", re.DOTALL | re.MULTILINE)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_C_COMMENTS: Final = re.compile(r"(?:^[ ]*//[^\n]*(?:\n[ ]*//[^\n]*)*)|/\*.*?\*/|(?<=\s)// [^\n]*", re.DOTALL | re.MULTILINE)
_HASH_COMMENTS: Final = re.compile(r"(?:^[ \t]*#(?!!)[^\n]*(?:\n[ \t]*#[^\n]*)*)|(?<=\s)# [^\n]*", re.MULTILINE)
_MARKS: Final = re.compile(r"(?:^|(?<=\n))[ \t]*(?://+|/\*+|\*+/?|#+!?)[ ]?|\s*\*/$")
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


def check_code(source: str, *, messages: bool = False) -> Iterator[Finding]:
    """Check the docstrings and comments of a module, the names of its tests, and with `messages` its help texts and the words of its
    strings. Sources without suspect text are neither parsed nor tokenised, which takes two thirds of the time."""
    for name in _TEST_NAME.finditer(source):
        line = source.count("\n", 0, name.start(1)) + 1
        yield Finding(line, "test-name", f"{name[1]} has a clause as its subject; name it: test_expired_values_are_not_listed")
    for found in _HELP.finditer(source) if messages else ():
        yield _clause(source.count("\n", 0, found.start()) + 1, "help text", found[1])
    suspect = [*_WORD.finditer(source), *_TWICE_IN_SOURCE.finditer(source)]
    if _OPENS_COMMENT.search(source) or any(_may_be_comment(source, found.start()) for found in suspect):
        for line, text in comments(source):
            yield from _check_comment(text, line)
    for found in _NAME.finditer(source):
        line = source.count("\n", 0, found.start(found.lastindex or 0)) + 1
        arrived = found[found.lastindex or 0]
        yield Finding(line, "name", f"{arrived} says how a value arrived; name what it holds: payload, options, error, reply")
    if not suspect and not _OPENS_WITH_CLAUSE.search(source):
        return
    tree = ast.parse(source)
    for line, text in docstrings(tree):
        first = _CLAUSE.match(text.lstrip())
        if first is not None:
            yield _clause(line, "docstring", first[0])
        yield from _words(_blank(_SPAN, text), line)
    if messages:
        for line, text in strings(tree):
            yield from (found for found in _words(text, line) if found.rule == "word")


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module, each with its line. Whole lines in a row are one comment."""
    begin, block, last = 0, list[str](), 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, whole = token.start[0], not token.line[: token.start[1]].strip()
        if block and whole and line == last + 1:
            block.append(token.string)
        else:
            if block:
                yield begin, "\n".join(block)
            begin, block = line, [token.string]
        last = line if whole else -1
    if block:
        yield begin, "\n".join(block)


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that have several words, and the parts of f-strings, each with its line. Docstrings are left out."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and id(node) not in documented:
            yield node.lineno, node.value


def check_script(text: str) -> Iterator[Finding]:
    """Check the comments of a script or a style sheet, and the words of all of its texts."""
    for found in _C_COMMENTS.finditer(text):
        yield from _check_comment(found[0], text.count("\n", 0, found.start()) + 1)
    yield from _other_words(text, _C_COMMENTS)


def check_settings(text: str) -> Iterator[Finding]:
    """Check the comments of a file in YAML, TOML or of make, its descriptions, and the words of all of its texts."""
    for found in _HASH_COMMENTS.finditer(text):
        yield from _check_comment(found[0], text.count("\n", 0, found.start()) + 1)
    for found in _DESCRIPTION.finditer(text):
        yield _clause(text.count("\n", 0, found.start()) + 1, "description", found[1])
    yield from _other_words(text, _HASH_COMMENTS)


def _check_comment(text: str, line: int) -> Iterator[Finding]:
    """Check a comment with its marks. `type: ignore  # reason` has two parts."""
    text = _blank(_SPAN, _MARKS.sub("", text))
    for part in re.split(r"\s+# ", text):
        first = _COMMENT_CLAUSE.match(part.lstrip())
        if first is not None:
            yield _clause(line + text.count("\n", 0, len(text) - len(text.lstrip())), "comment", first[1])
    yield from _words(text, line)


def _other_words(text: str, pattern: re.Pattern[str]) -> Iterator[Finding]:
    """Check the words of a text outside of the comments."""
    return (found for found in _words(_blank(pattern, text), 1) if found.rule == "word")


def _may_be_comment(source: str, at: int) -> bool:
    return "#" in source[source.rfind("\n", 0, at) + 1 : at]


def _clause(line: int, what: str, first: str) -> Finding:
    remedy = "begin with a noun and its unit, or with a verb: Return, Seconds that, True if"
    return Finding(line, "first-word", f"the {what} begins with {first!r}; {remedy}")


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
            messages = not any(path.is_relative_to(root / name) for name in WITHOUT_MESSAGES)
            yield from _report(path, root, list(check_code(path.read_text(), messages=messages)))
    for places, function in ((SCRIPTS, check_script), (SETTINGS, check_settings)):
        for folder, pattern in places:
            paths = (root / folder).rglob(pattern) if function is check_script else (root / folder).glob(pattern)
            for path in sorted(path for path in paths if "vendor" not in path.parts):
                yield from _report(path, root, list(function(path.read_text())))
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
