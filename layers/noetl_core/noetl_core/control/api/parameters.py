"""Types of what routes take: parts of a path, query parameters, scalars of a JSON body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.openapi.params import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Strict, WithJsonSchema
from pydantic_core import core_schema

from noetl_core.control.operations import execution_id
from noetl_core.control.read import MAX_PAGE
from noetl_core.control.refusals import within

Text = Annotated[str, Strict()]
Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]


class JsonBody(BaseModel):
    """A JSON object with known keys; a key that is null counts as absent."""

    model_config = ConfigDict(extra="forbid")


ExecutionId = Annotated[
    str, Path(description="its id"), AfterValidator(execution_id), WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,19}$"})
]
PlaybookPath = Annotated[str, Path(description="of the playbook; it may have slashes in it")]


@dataclass(frozen=True, slots=True)
class Written:
    """A whole number as a query has it: decimal digits, from `least` to `most`."""

    name: str
    least: int
    most: int

    def __get_pydantic_core_schema__(self, *_: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, *_: Any) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def _read(self, text: Any) -> int:
        digits = str(text)
        return within(self.name, int(digits) if digits.isdecimal() and len(digits) <= 9 else -1, self.least, self.most)


def asked(description: str) -> Any:
    """A query parameter."""
    return Query(description=description)


Limit = Annotated[int, Written("limit", 1, MAX_PAGE)]
