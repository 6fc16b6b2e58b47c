"""Decides which form asks a person for the answer to a callback, by its schema. The console and the page of a link show the
same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from noetl_core.values import strict_json
from noetl_core.values.frozen import frozen

_APPROVALS: Final = re.compile(r"appr|accept|allow|confirm|agree|^ok$", re.IGNORECASE)
"""Names of decisions that are approvals."""
_OPPOSITES: Final = re.compile(r"dis|un|non|not|no_|never|without|need|requir|request|await|pending", re.IGNORECASE)
"""Parts of names such as `disapproved`, for which true does not mean approval."""
TYPES: Final = ("boolean", "integer", "number", "string")
"""Types with a field of their own. Other values are written as JSON."""


_LOCAL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?")
"""An instant as a browser's field has it, without a zone."""
_MINUTES: Final = len("2026-01-01T00:00")


@frozen
class FormField:
    """A field of a form. `type` is one of `TYPES`, `enum`, or `json`."""

    name: str
    type: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def title(self) -> str:
        return str(self.schema.get("title") or self.name)


def decision_of(schema: Any) -> dict[str, str] | None:
    """Return `{key, yes, no}`: the one required boolean of an answer, and the words of the two buttons that give it.

    None if there are more, or none.
    """
    found = [f for f in fields_of(schema) if f.name and f.required and f.type == "boolean"]
    if len(found) != 1:
        return None
    (field,) = found
    approval = _APPROVALS.search(field.name) is not None and _OPPOSITES.search(field.name) is None
    yes, no = ("Approve", "Reject") if approval else (f"{field.title}: yes", f"{field.title}: no")
    return {"key": field.name, "yes": yes, "no": no}


def fields_of(schema: Any) -> list[FormField]:
    """Return the fields of a form: those of an object, else a single one without a name."""
    if not isinstance(schema, Mapping):
        return [FormField("", "json", {}, required=False)]
    if not schema.get("properties"):
        return [FormField("", _type_of(schema), schema, required=True)]
    required = schema.get("required") or ()
    return [FormField(name, _type_of(part), part, name in required) for name, part in schema["properties"].items()]


def is_instant(field: FormField) -> bool:
    """Return whether a field is an instant. Forms without scripts do not know the reader's zone, so it is typed in UTC."""
    return field.type == "string" and field.schema.get("format") == "date-time"


def answer_of(schema: Any, texts: Mapping[str, str], decided: str | None = None) -> Any:
    """Return the answer in a form, by the names of its fields; `decided` is the button that was pressed, `yes` or `no`.

    Raises `ValueError` with a sentence.
    """
    decision = decision_of(schema)
    found: dict[str, Any] = {}
    for field in fields_of(schema):
        if decision is not None and field.name == decision["key"]:
            if decided not in ("yes", "no"):
                raise ValueError(f"choose {decision['yes']} or {decision['no']}")
            found[field.name] = decided == "yes"
        elif (text := texts.get(field.name, "").replace("\r\n", "\n")).strip():
            found[field.name] = _value(field, text)
        elif field.required and field.type != "string":
            raise ValueError(f"{field.title or 'the answer'} is missing")
        elif field.required:
            found[field.name] = ""
    return found if isinstance(schema, Mapping) and schema.get("properties") else found.get("")


def _type_of(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "enum"
    names = schema.get("type")
    kinds = [name for name in ([names] if isinstance(names, str) else names or ()) if name != "null"]
    return kinds[0] if len(kinds) == 1 and kinds[0] in TYPES else "json"


def _value(field: FormField, text: str) -> Any:
    if field.type == "string":
        return text + (":00Z" if len(text) == _MINUTES else "Z") if is_instant(field) and _LOCAL.fullmatch(text) else text
    if field.type == "enum":
        numbers = [str(n) for n in range(len(field.schema["enum"]))]
        if text not in numbers:
            raise ValueError(f"{field.title or 'the answer'} must be one of the choices")
        return field.schema["enum"][int(text)]
    try:
        return strict_json.loads(text)
    except ValueError:
        form = {"boolean": "yes or no", "integer": "a number", "number": "a number"}.get(field.type, "JSON")
        raise ValueError(f"{field.title or 'the answer'} must be {form}") from None
