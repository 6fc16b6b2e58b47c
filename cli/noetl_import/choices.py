"""Translates the rules of a Choice state to conditions. A comparison of another type than the value is false, as the States
Language has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_import import jsonata
from noetl_import.findings import Unmapped
from noetl_import.names import Names
from noetl_import.values import Const, Doc, literal, operand

COMPARISON: Final = re.compile(
    r"(?P<type>String|Numeric|Boolean|Timestamp)(?P<test>Equals|LessThanEquals|LessThan|GreaterThanEquals|GreaterThan)(?P<path>Path)?"
)
OPERATORS: Final = {"Equals": "==", "LessThan": "<", "LessThanEquals": "<=", "GreaterThan": ">", "GreaterThanEquals": ">="}
TYPES: Final = {
    "IsNull": "{0} is none",
    "IsNumeric": "{0} is number and {0} is not boolean",
    "IsString": "{0} is string",
    "IsBoolean": "{0} is boolean",
    "IsTimestamp": "{0} is string and {0} | regex_match({1})",
}
DATE: Final = r"^\d{4}-\d{2}-\d{2}T"
INSTANT: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$"


def condition(rule: Mapping[str, Any], names: Names) -> str:
    """Return the condition of a rule, an expression. Raises `Unmapped`."""
    if "Condition" in rule:
        doc = jsonata.template(rule["Condition"], names)
        return doc.text()
    if "Not" in rule:
        inner = condition(rule["Not"], names)
        return f"not {inner}" if re.fullmatch(r"[\w.\[\]']+", inner) else f"not ({inner})"
    for key, word in (("And", " and "), ("Or", " or ")):
        if key in rule:
            return word.join(_joined(condition(each, names), word) for each in rule[key])
    operators = [key for key in rule if key not in ("Variable", "Next", "Comment", "Assign", "Output")]
    if len(operators) != 1 or "Variable" not in rule:
        raise Unmapped("the rule has no Variable with one comparison", "correct the rule")
    return _comparison(names, rule["Variable"], operators[0], rule[operators[0]])


def _joined(text: str, word: str) -> str:
    return f"({text})" if (re.search(r" (and|or|if) ", text) and word not in text) or " if " in text else text


def _comparison(names: Names, variable: str, operator: str, expected: Any) -> str:
    if operator == "IsPresent":
        try:
            found = names.path(variable).present()
        except Unmapped as error:
            if "has no" not in error.message or "$$" in variable:
                raise
            found = "false"
        return found if expected else f"not {found}" if found in ("true", "false") else _negated(found)
    doc = names.path(variable)
    value = operand(doc)
    if operator in TYPES:
        text = TYPES[operator].format(value, literal(INSTANT))
        return text if expected else f"not ({text})"
    if operator == "StringMatches":
        return f"{value} is string and {_matching(doc, expected)}"
    match = COMPARISON.fullmatch(operator)
    if match is None:
        raise Unmapped(f"{operator} is not a comparison", "correct the rule")
    other = names.path(expected) if match["path"] else Const(expected)
    return _compared(match["type"], OPERATORS[match["test"]], value, other, bool(match["path"]))


def _negated(text: str) -> str:
    return text.replace(" is defined", " is not defined") if text.endswith(" is defined") else f"not ({text})"


def _compared(type_: str, operator: str, value: str, other: Doc, computed: bool) -> str:
    right = operand(other)
    guard = {"String": "string", "Numeric": "number", "Timestamp": "string", "Boolean": "boolean"}[type_]
    guards = f"{value} is {guard} and " + (f"{right} is {guard} and " if computed else "")
    if type_ == "Timestamp":
        return f"{guards}{value} | regex_match({literal(DATE)}) and {value} | to_epoch {operator} {right} | to_epoch"
    plain = operator == "==" and type_ in ("String", "Boolean") and not computed and type_ == "String"
    return f"{'' if plain else guards}{value} {operator} {right}"


def _matching(doc: Doc, pattern: str) -> str:
    parts = re.split(r"(?<!\\)\*", pattern)
    texts = [re.sub(r"\\([*\\])", r"\1", part) for part in parts]
    target = operand(doc)
    if len(texts) == 1:
        return f"{target} == {literal(texts[0])}"
    if len(texts) == 2 and "" in texts and target == doc.text():
        return f"{target}.endswith({literal(texts[1])})" if not texts[0] else f"{target}.startswith({literal(texts[0])})"
    return f"{target} | regex_match({literal('(?s)^' + '.*'.join(map(re.escape, texts)) + '$')})"
