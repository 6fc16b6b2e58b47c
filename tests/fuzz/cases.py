"""The calls: every filter, test, function, method and operator of templates, with large and strange arguments."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from noetl_core.expr import FILTERS, FUNCTIONS, TESTS
from noetl_core.expr.methods import DICT, LIST, STR
from noetl_core.expr.operators import BINARY, COMPARE


def _nested(depth: int) -> Any:
    value: Any = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


VALUES: Mapping[str, Any] = {
    "text": "a" * 8_000_000,
    "words": "ab, c\n\t<i>" * 600_000,
    "wide": "😀é" * 1_000_000,
    "short": "a" * 1_000_000,
    "numbers": list(range(300_000)),
    "texts": [f"t{n}" for n in range(100_000)],
    "rows": [{"a": n % 100, "b": "é" * 20} for n in range(30_000)],
    "mapping": {f"k{n}": n for n in range(100_000)} | {"a": "b" * 4_000_000},
    "control": "\0" * 3_000_000,
    "deep": _nested(190),
    "number": 2**4000,
    "float": 1.7e308,
    "named": "%(a)s%(a)r" * 1000,
    "fields": "{0}{0!r}{a}" * 1000,
}
"""The arguments of calls, which are in the scope of the template."""

ARGUMENTS: Mapping[str, str] = {
    "big": "1000000",
    "width": "10000",
    "minus": "-1",
    "empty": "''",
    "char": "'a'",
    "name": "'upper'",
    "text": "text",
    "wide": "wide",
    "numbers": "numbers",
    "rows": "rows",
    "mapping": "mapping",
    "number": "number",
    "none": "none",
    "classes": r"'(\\w|\\W){0,40}b'",
    "states": "'(?:a|b)*a(?:a|b){300}c'",
    "groups": "'" + "(a?)" * 200 + "'",
    "refs": "'" + r"\\1" * 300 + "'",
    "percent": "'%10000d' * 1000",
    "quoted": "'%r%a' * 2",
    "named": "'%(a)s%(a)r' * 1000",
    "braces": "'{:>10000}' * 1000",
    "year": "'%Y' * 100",
}
"""Texts of arguments."""


@dataclass(frozen=True)
class Case:
    """One call: `subject` names what is called."""

    subject: str
    template: str


SYMBOLS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")
OPERATORS: Mapping[str, str] = {
    **{f"operator {symbol}": "{{ %s " + symbol.replace("%", "%%") + " %s }}" for symbol in BINARY},
    **{
        f"comparison {name}": "{{ %s " + symbol + " %s }}"
        for name, symbol in zip(("eq", "ne", "lt", "lteq", "gt", "gteq", "in", "notin"), SYMBOLS, strict=True)
    },
    "operator ~": "{{ %s ~ %s }}",
    "operator and": "{{ %s and %s }}",
    "operator or": "{{ %s or %s }}",
    "operator not": "{{ not %s or %s }}",
    "operator neg": "{{ -%s ~ %s }}",
    "operator pos": "{{ +%s ~ %s }}",
    "item": "{{ %s[%s] }}",
    "slice": "{{ %s[::%s] }}",
    "if": "{{ %s if %s else 1 }}",
    "list": "{{ [%s, %s] * 100 }}",
    "dict": "{{ {'a': %s, 'b': %s} | tojson }}",
    "for": "{%% for x in %s %%}{{ x }}{{ %s }}{%% endfor %%}",
    "text": "{{ %s }}{{ %s }}",
    "set": "{%% set ns = namespace(s=%s) %%}{%% for i in range(40) %%}{%% set ns.s = ns.s ~ %s %%}{%% endfor %%}{{ ns.s }}",
    "macro": "{%% macro m(a) %%}{{ a }}{%% endmacro %%}{{ m(%s) ~ m(%s) }}",
    "filter block": "{%% filter replace(%s, 'bb') %%}{{ %s }}{%% endfilter %%}",
}


def subjects() -> list[str]:
    """Return the names of everything that is called."""
    assert set(COMPARE) == {name.split()[1] for name in OPERATORS if name.startswith("comparison")}
    groups = {
        "filter": FILTERS,
        "test": TESTS,
        "function": FUNCTIONS,
        "text method": STR,
        "mapping method": DICT,
        "list method": LIST,
    }
    return [f"{group} {name}" for group, names in groups.items() for name in names] + list(OPERATORS)


def _methods(group: str) -> tuple[str, ...]:
    return {
        "text": ("text", "words", "wide", "short", "control", "named", "fields"),
        "mapping": ("mapping",),
        "list": ("numbers", "texts", "rows"),
    }[group]


ARGUMENT_LISTS: Sequence[tuple[str, ...]] = [
    (),
    *((one,) for one in ARGUMENTS.values()),
    *product(ARGUMENTS.values(), repeat=2),
]


@dataclass(frozen=True)
class Calls:
    """All calls of one subject. A call is made when it is chosen, because there are a million of them."""

    subject: str

    @property
    def values(self) -> tuple[str, ...]:
        group = self.subject.split(" ")
        return _methods(group[0]) if group[1:2] == ["method"] else tuple(VALUES)

    @property
    def arguments(self) -> Sequence[tuple[str, ...]]:
        return [(one,) for one in ARGUMENTS.values()] if self.subject in OPERATORS else ARGUMENT_LISTS

    def __len__(self) -> int:
        return len(self.values) * len(self.arguments)

    def __getitem__(self, number: int) -> Case:
        value, arguments = divmod(number, len(self.arguments))
        return Case(self.subject, self._template(self.values[value], self.arguments[arguments]))

    def _template(self, value: str, arguments: tuple[str, ...]) -> str:
        if self.subject in OPERATORS:
            return OPERATORS[self.subject] % (value, *arguments)
        *group, name = self.subject.split(" ")
        written = ", ".join(arguments)
        if group[0] == "filter":
            return f"{{{{ {value} | {name}({written}) }}}}"
        if group[0] == "test":
            return f"{{{{ [{value}] | select({', '.join([repr(name), *arguments])}) | length }}}}"
        if group[0] == "function":
            return f"{{{{ {name}({', '.join([value, *arguments])}) }}}}"
        return f"{{{{ {value}.{name}({written}) }}}}"


def sample(each: int, seed: int) -> list[Case]:
    """Return at most `each` calls of each subject, the simplest one first."""
    found: list[Case] = []
    for subject in subjects():
        calls = Calls(subject)
        count = len(calls)
        others = random.Random(f"{seed} {subject}").sample(range(1, count), min(each, count) - 1) if each else range(1, count)
        found += [calls[number] for number in (0, *others)]
    return found
