"""Describes fields of requests: their place in an HTTP request, their values, and a sentence about them.

A field is an annotation of a request class, `name: Annotated[type, "sentence"]`, or with a `Field` instead of the sentence. By
default, a field is in the path if the path contains its name, else in the query of GET and DELETE, else in the JSON body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from noetl_core.api.refused import BadRequest, execution_id, iteration_path, within
from noetl_core.dsl.versions import ALIAS, Version
from noetl_core.values.frozen import frozen

Place = Literal["path", "query", "header", "body", "text", "form"]
"""`text` is the whole body, which is a playbook; `form` is the whole body, which a form of a page has sent."""


@frozen
class Field:
    """Facts about a field beside its type. `name` is its name in the request, if that differs."""

    about: str = ""
    name: str = ""
    place: Place | None = None
    header: str = ""
    """A header that may have the value too."""
    header_about: str = ""
    quoted: bool = False
    """True if the value is an entity tag: in quotes, perhaps weak."""
    least: float | None = None
    most: float | None = None
    """Bounds of a number, or of the length of a list."""
    filled: bool = False
    """True if the value may not be empty."""
    words: tuple[str, ...] = ()
    """Pairs of words for no and yes in a query."""
    check: Callable[[Any], Any] | None = None
    """Returns the value, perhaps normalised. Raises `BadRequest` or `NoRoute`."""
    schema: Any = None
    """The JSON Schema of the value, or a type, if the API takes other values than Python's type says."""


@frozen
class Spec:
    """A field of a request class, from its annotation."""

    attribute: str
    name: str
    place: Place
    type: Any
    """The type without `Annotated`; without None if `optional`."""
    optional: bool
    required: bool
    default: Any
    field: Field


_specs: dict[type, tuple[Spec, ...]] = {}


def specs(kind: type) -> tuple[Spec, ...]:
    """Return the fields of a request class, or of a typed dictionary in a body."""
    if kind not in _specs:
        http = getattr(kind, "http", None)
        hints = get_type_hints(kind, include_extras=True)
        _specs[kind] = tuple(_spec(kind, http, name, hints[name]) for name in kind.__annotations__ if name != "_")
    return _specs[kind]


def _spec(kind: type, http: Any, attribute: str, hint: Any) -> Spec:
    found = [] if get_origin(hint) is not Annotated else [m for m in hint.__metadata__ if isinstance(m, str | Field)]
    field = found[-1] if found else Field()
    if isinstance(field, str):
        field = Field(field)
    type_, optional = _without_none(hint.__origin__ if get_origin(hint) is Annotated else hint)
    if field.schema is not None and not isinstance(field.schema, Mapping):
        type_ = field.schema
    name = field.name or attribute
    if field.place is not None:
        place = field.place
    elif http is not None and (f"{{{name}}}" in http.path or f"{{{name}+}}" in http.path):
        place = "path"
    else:
        place = "query" if http is not None and http.method in ("GET", "DELETE") else "body"
    required = attribute in kind.__required_keys__ if hasattr(kind, "__required_keys__") else not hasattr(kind, attribute)
    return Spec(attribute, name, place, type_, optional, required, getattr(kind, attribute, None), field)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    kept = [part for part in get_args(hint) if part is not NoneType]
    return reduce(or_, kept), len(kept) < len(get_args(hint))


def number(about: str, least: int, most: int, name: str = "", *, place: Place | None = None) -> Field:
    """Return a field for a whole number of a query: decimal digits."""
    return Field(about, name, least=least, most=most, place=place)


def switch(about: str, *words: str, place: Place | None = None) -> Field:
    """Return a field for a query parameter that is a word for no or yes, by default `false` and `true`."""
    return Field(about, words=words or ("false", "true"), place=place)


def check_numbers(request: Any) -> None:
    """Check the numbers of a request against their bounds. Raises `BadRequest`."""
    for spec in specs(type(request)):
        value = getattr(request, spec.attribute)
        if spec.type is int and value is not None and spec.field.least is not None and spec.field.most is not None:
            within(spec.name, value, int(spec.field.least), int(spec.field.most))


def _version(value: Any) -> int | str:
    if type(value) is int or (isinstance(value, str) and ALIAS.match(value)):
        return value
    raise BadRequest(f"{value!r} is not a version: an int is expected, or the name of an alias", "body.version")


def _iteration(text: str) -> str:
    return ".".join(map(str, iteration_path(text)))


ID_SCHEMA: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9]{1,19}$"}
ExecutionId = Annotated[str, Field("its id", check=execution_id, schema=ID_SCHEMA)]
StepName = Annotated[str, "of the step"]
IterationIndex = Annotated[
    str,
    Field(
        "the index of the iteration; in nested loops the index in each loop, `3.5`",
        check=_iteration,
        schema={"type": "string", "pattern": r"^[0-9]{1,9}(\.[0-9]{1,9}){0,9}$"},
    ),
]
PlaybookPath = Annotated[str, "of the playbook; it may have slashes in it"]
Source = Annotated[str, Field("A playbook as YAML or JSON, or `{playbook: text}`", place="text")]
VersionQuery = Annotated[Version, Field("a number or an alias, the latest by default", schema={"type": "string"})]


def version_of_body(about: str) -> Field:
    """Return a field for a version of a playbook in a body: a number or an alias."""
    return Field(about, check=_version, schema=int | str)
