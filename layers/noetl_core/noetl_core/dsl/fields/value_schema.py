"""The fields of a schema of values: `workload.x-schema`, and `schema` of a callback."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.types import Anything, Block, Field, Flag, Part, Shape

_COUNT: Final = Shape("count", "a whole number of at least 0")
_NUMBER: Final = Shape("number", "a number")

VALUE_SCHEMA: Final = Block(
    "value_schema",
    "What a value must be, in a plain subset of JSON Schema. `workload.x-schema` and `schema` of a callback have this form.",
    "playbook.md#accepted-inputs",
    Field(
        "type",
        Shape("type_names", "a type, or a list of types"),
        "The type of the value: `object`, `array`, `string`, `number`, `integer`, `boolean`, `null`.",
    ),
    Field("enum", Shape("some_values", "a list of values"), "The values that are allowed."),
    Field("const", Anything("any value"), "The one value that is allowed."),
    Field("required", Shape("texts", "a list of names"), "Names that an object must have."),
    Field(
        "properties", Shape("value_schemas", "a mapping of names to schemas"), "What the values of an object must be, by name."
    ),
    Field("additionalProperties", Flag(), "false refuses names that `properties` does not list.", default=True),
    Field("items", Shape("value_schema", "a schema"), "What each item of an array must be."),
    Field("minItems", _COUNT, "The minimum number of items of an array."),
    Field("maxItems", _COUNT, "The maximum number of items of an array."),
    Field("minLength", _COUNT, "The minimum number of characters of a text."),
    Field("maxLength", _COUNT, "The maximum number of characters of a text."),
    Field(
        "format",
        Shape("format", "a format of texts"),
        "The form of a text: `date`, `date-time`, `time`, `email`, `multiline` (a large field in forms), or `credential` (the"
        " name of a stored credential, which forms let you choose).",
    ),
    Field("minimum", _NUMBER, "The smallest allowed number."),
    Field("maximum", _NUMBER, "The largest allowed number."),
    Field("title", Anything("text"), "A title for readers. It is not checked."),
    Field("description", Anything("text"), "A description for readers. It is not checked."),
    Field("default", Anything("any value"), "A usual value, for readers. It sets nothing."),
    Field("examples", Anything("a list of values"), "Example values for readers. They are not checked."),
)

X_SCHEMA: Final = Field(
    "x-schema",
    Part(VALUE_SCHEMA),
    "What the merged workload must be; a request that does not fit it is refused. Templates do not see it.",
    link="playbook.md#accepted-inputs",
)
"""The one key of `workload` that is not an input."""
