"""Commands that take their arguments and options as one object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints


class Dataclass(Protocol):
    """A class made by `dataclass`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Options = TypeVar("Options", bound=Dataclass)


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Have a command take an object of the dataclass `options`. Its fields are annotated like the parameters of a command of
    Typer, which reads them from the signature."""

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(command)
        def taking(**values: Any) -> None:
            command(options(**values))

        made: Any = taking
        made.__annotations__ = get_type_hints(options, include_extras=True)
        made.__signature__ = Signature(
            [
                Parameter(
                    field.name,
                    Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if field.default is MISSING else field.default,
                    annotation=made.__annotations__[field.name],
                )
                for field in fields(options)
            ]
        )
        return taking

    return decorate
