"""Creates pydantic models of JSON bodies from the fields of a request class, when its operation is first requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, is_typeddict

from pydantic import BaseModel, ConfigDict, PlainValidator, Strict, WithJsonSchema, create_model
from pydantic import Field as ModelField

from noetl_core.api.fields import Field, Spec, specs

_models: dict[str, type[BaseModel]] = {}


def model_of(kind: type) -> type[BaseModel]:
    """Return the model of the body of a request class, or of a typed dictionary in a body.

    Bodies of the same name are the same. A null key counts as absent.
    """
    http = getattr(kind, "http", None)
    name = kind.__name__ if http is None else http.body
    if name not in _models:
        fields: dict[str, Any] = {s.attribute: _definition(s) for s in specs(kind) if s.place == "body"}
        about = kind.__doc__ if fields else "An object without keys, or no body."
        _models[name] = create_model(name, __config__=ConfigDict(extra="forbid"), __doc__=about, **fields)
    return _models[name]


def _definition(spec: Spec) -> tuple[Any, Any]:
    type_ = _with_constraints(_strict(spec.type), spec.field)
    default: Any = ... if spec.required else spec.default
    constrained: Any = ModelField(default, alias=spec.name, description=spec.field.about or None)
    return (type_ | None if spec.optional and type_ is not Any else type_), constrained


def _with_constraints(type_: Any, field: Field) -> Any:
    is_list = get_origin(type_) is list
    if field.check is not None:
        return Annotated[type_, PlainValidator(field.check, json_schema_input_type=type_)]
    if isinstance(field.schema, Mapping):
        return Annotated[type_, WithJsonSchema(dict(field.schema))]
    if field.filled:
        return Annotated[type_, ModelField(min_length=1)]
    if field.least is not None and is_list:
        return Annotated[type_, ModelField(min_length=int(field.least), max_length=int(field.most or 0))]
    if field.least is not None:
        return Annotated[type_, ModelField(ge=field.least, le=field.most)]
    return type_


def _strict(type_: Any) -> Any:
    """Return a type that accepts only JSON values of its own type."""
    origin, parts = get_origin(type_), get_args(type_)
    if type_ in (str, int, bool, float):
        return Annotated[type_, Strict()]
    if origin in (Union, UnionType):
        return reduce(or_, [_strict(part) for part in parts])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, _strict(parts[1])]  # type: ignore[misc]  # made at run time
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return list[_strict(parts[0])]  # type: ignore[misc]  # made at run time
    return model_of(type_) if is_typeddict(type_) else type_
