"""References to stored results: `{kind: result_ref, store, key, size, checksum, ...}`."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

KIND: Final = "result_ref"
MANIFEST: Final = "manifest"
"""The `schema_hint` of a reference to a list in pages: the object lists the pages."""
MARK: Final = f'"{KIND}"'.encode()
"""An object that does not contain this text contains no reference, so it need not be searched."""
FORMAT_OF_SUFFIX: Final = {"json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "parquet": "parquet"}
"""The content of an object, in its name."""
MASKED_NAME: Final = "masked"
"""The prefix of objects with a value whose secrets were removed."""


def is_reference(value: Any) -> bool:
    """Return whether `value` has the form of a reference. External data may have the same form: `resolve` checks the
    reference."""
    return type(value) is dict and value.get("kind") == KIND and type(value.get("key")) is str and "store" in value


def is_partly_readable(reference: Mapping[str, Any]) -> bool:
    """Return whether parts of the referenced object can be read separately, because it has an outline or pages."""
    return type(reference.get("outline")) is str or reference.get("schema_hint") == MANIFEST


def is_plain(key: str) -> bool:
    """Return whether a key names the same object in every store: path normalisation turns `1/../2/x` into `2/x`, S3 does not."""
    return not {"", ".", ".."} & set(key.split("/"))


def reference_to(key: str, body: bytes) -> dict[str, Any]:
    """Return the reference to an object with the content `body`."""
    return {**unchecked_reference(key, len(body)), "checksum": f"sha256:{sha256(body).hexdigest()}"}


def unchecked_reference(key: str, size: int) -> dict[str, Any]:
    """Return the reference to an object whose checksum is unknown."""
    return {"kind": KIND, "store": "s3", "key": key, "size": size}


class Altered(ValueError):
    """The object with `key` differs from the one that was referenced: it was overwritten, or the reference is forged."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the object {key} is not what was stored when the reference was made: its checksum differs")
