"""Values of JSON as attributes of DynamoDB, and back."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from noetl_core.tools.base import BadInput


def written(value: Any, what: str) -> dict[str, Any]:
    """Return a value as an attribute. Raises `BadInput`, which names `what`."""
    if value is None or isinstance(value, bool):
        return {"NULL": True} if value is None else {"BOOL": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, int | float):
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            raise BadInput(f"{what} holds {value}, which is not a number for DynamoDB")
        return {"N": str(Decimal(repr(value)))}
    if isinstance(value, Mapping):
        return {"M": {str(name): written(each, what) for name, each in value.items()}}
    if isinstance(value, list | tuple):
        return {"L": [written(each, what) for each in value]}
    raise BadInput(f"{what} holds {type(value).__name__}, which is not JSON data")


def read(attribute: Mapping[str, Any]) -> Any:
    """Return the value of an attribute: sets are lists, bytes are base64, whole numbers whole."""
    ((kind, value),) = attribute.items()
    if kind == "NULL":
        return None
    if kind == "N":
        return _number(value)
    if kind == "M":
        return {name: read(each) for name, each in value.items()}
    if kind == "L":
        return [read(each) for each in value]
    if kind == "NS":
        return sorted(_number(each) for each in value)
    if kind == "SS":
        return sorted(value)
    if kind == "B":
        return b64encode(value).decode()
    return sorted(b64encode(each).decode() for each in value) if kind == "BS" else value


def _number(text: str) -> int | float:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else float(number)
