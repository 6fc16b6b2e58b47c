"""`TypedDict` for a type checker, a plain class at run time.

At run time a payload is a dict, and its class only has annotations, as text. A real `TypedDict` takes ten times as long to
create, and there are eighty, which would make every start slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypedDict as TypedDict
else:

    class TypedDict:
        """Base of payloads and shapes."""

        __total__ = True

        def __init_subclass__(cls, total: bool = True) -> None:
            cls.__total__ = total

        def __new__(cls, **keys: object) -> dict[str, object]:
            return keys
