"""References to results that are kept beside the log: `{kind: result_ref, store, key, size, checksum, ...}`."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

KIND: Final = "result_ref"
MANIFEST: Final = "manifest"
"""The `schema_hint` of a reference to a list that is kept in pages: the object says where they are."""
MARK: Final = f'"{KIND}"'.encode()
"""An object that does not contain this text contains no reference, so it need not be searched."""
MASKED_NAME: Final = "masked"
"""How the names of objects begin that have a value without its secrets."""


def is_reference(value: Any) -> bool:
    """Whether `value` is a reference. Data from outside may say so too: what a reference leads to is for `resolve` to check."""
    return type(value) is dict and value.get("kind") == KIND and type(value.get("key")) is str and "store" in value


def is_partly_readable(reference: Mapping[str, Any]) -> bool:
    """Whether a reference says that parts of its object can be read alone: it has an outline, or is kept in pages."""
    return type(reference.get("outline")) is str or reference.get("schema_hint") == MANIFEST


def is_plain(key: str) -> bool:
    """Whether a key names the same object wherever it is read: what tidies paths up takes `1/../2/x` for `2/x`, S3 does not."""
    return not {"", ".", ".."} & set(key.split("/"))


def reference_to(key: str, body: bytes) -> dict[str, Any]:
    """The reference to an object that holds `body`."""
    return {**unchecked_reference(key, len(body)), "checksum": f"sha256:{sha256(body).hexdigest()}"}


def unchecked_reference(key: str, size: int) -> dict[str, Any]:
    """The reference to an object whose checksum is not known here."""
    return {"kind": KIND, "store": "s3", "key": key, "size": size}


class Altered(ValueError):
    """The object with `key` differs from the one for which its reference was made: somebody overwrote it, or invented the
    reference."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the object {key} is not what was stored when the reference was made: its checksum is another")
