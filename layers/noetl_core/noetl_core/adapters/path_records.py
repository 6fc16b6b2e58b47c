"""Records about playbook paths as JSON text, in one format for every store."""

from __future__ import annotations

import json

from noetl_core.ports import PathChange, PathRecord


def dumps(record: PathRecord) -> str:
    """Return a record as text."""
    return json.dumps(
        {
            "path": record.path,
            "revision": record.revision,
            "aliases": {name: sorted(weights.items()) for name, weights in record.aliases.items()},
            "tags": record.tags,
            "deleted_at": record.deleted_at,
            "changes": [(change.at, change.by, change.what) for change in record.changes],
        },
        separators=(",", ":"),
    )


def loads(text: str) -> PathRecord:
    """Return the record of a text."""
    fields = json.loads(text)
    return PathRecord(
        path=fields["path"],
        revision=fields["revision"],
        aliases={name: dict(weights) for name, weights in fields["aliases"].items()},
        tags=tuple(fields["tags"]),
        deleted_at=fields["deleted_at"],
        changes=tuple(PathChange(*change) for change in fields["changes"]),
    )
