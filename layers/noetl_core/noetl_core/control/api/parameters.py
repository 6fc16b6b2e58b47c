"""Types of what routes take: parts of a path, query parameters, scalars of a JSON body."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, Strict, WithJsonSchema

from noetl_core.control.operations import execution_id
from noetl_core.control.pages import MAX_PAGE
from noetl_core.control.refusals import BadRequest, within
from noetl_core.dsl.versions import ALIAS

Text = Annotated[str, Strict()]
Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]


def _version(value: Any) -> int | str:
    if type(value) is int or (isinstance(value, str) and ALIAS.match(value)):
        return value
    raise BadRequest(f"{value!r} is no version: an int is expected, or the name of an alias", "body.version")


VersionNumber = Annotated[int | str, PlainValidator(_version, json_schema_input_type=int | str)]
"""A version of a playbook in a body: a number or an alias."""


class JsonBody(BaseModel):
    """A JSON object with known keys; a key that is null counts as absent."""

    model_config = ConfigDict(extra="forbid")


ExecutionId = Annotated[
    str, Path(description="its id"), AfterValidator(execution_id), WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,19}$"})
]
StepName = Annotated[str, Path(description="of the step")]
PlaybookPath = Annotated[str, Path(description="of the playbook; it may have slashes in it")]


def written(name: str, least: int, most: int) -> PlainValidator:
    """A whole number as a query has it: decimal digits, from `least` to `most`."""

    def read(text: Any) -> int:
        digits = str(text)
        return within(name, int(digits) if digits.isdecimal() and len(digits) <= 9 else -1, least, most)

    return PlainValidator(read, json_schema_input_type=Annotated[int, Field(ge=least, le=most)])


def asked(description: str) -> Any:
    """A query parameter."""
    return Query(description=description)


def asked_as(name: str, description: str) -> Any:
    """A query parameter whose name is a word of Python."""
    return Query(alias=name, description=description)


Switch = Literal["0", "1", "false", "true"]


def on(switch: str) -> bool:
    """Whether a switch of a query is on."""
    return switch in ("1", "true")


Limit = Annotated[int, written("limit", 1, MAX_PAGE)]
