"""Resolves which version of a playbook starts, and changes aliases, tags and deletion of paths (docs/catalog.md).

An alias refers to one version, or is split between several by weights. The id of the execution then selects the version, so
repeated requests for one execution get the same answer. An execution pins its playbook's digest in its log, so a change only
affects later starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from noetl_core.control.core import Control
from noetl_core.dsl.reading.diagnostics import suggest
from noetl_core.dsl.versions import ALIAS, LATEST, MAX_VERSION, Version
from noetl_core.engine import ids
from noetl_core.playbooks.parsed import PlaybookCache
from noetl_core.ports import NotFound, PathChange, PathRecord, PlaybookCatalog, PlaybookVersion, retry_conflicts
from noetl_core.values.instants import to_rfc3339

MAX_ALIASES: Final = 50
MAX_SPLIT: Final = 5
"""Maximum number of versions of one alias."""
MAX_WEIGHT: Final = 1000
MAX_TAGS: Final = 20
TAG: Final = re.compile(r"[\w][\w.:=/\-]{0,63}\Z")
KEPT_CHANGES: Final = 50


class Playbooks(Protocol):
    """The registered playbooks, and the settings that decide how they start: everything read before an execution begins."""

    @property
    def catalog(self) -> PlaybookCatalog: ...

    @property
    def playbook(self) -> PlaybookCache:
        """Return the parsed playbook of a digest."""
        ...

    @property
    def strict(self) -> bool:
        """Return whether executions are strict by default."""
        ...


class Deleted(NotFound):
    """The playbook is deleted: nothing new starts from it (HTTP 410). Who acts: the caller, or the operator, who can restore
    it."""


class BadLabel(ValueError):
    """An alias, its weights or a tag is invalid (HTTP 422). Who acts: the caller."""


def resolve(control: Playbooks, path: str, version: Version, execution_id: str | None = None) -> PlaybookVersion:
    """Return the version that `path@version` selects for the execution `execution_id`; without an id, the alias must refer to a
    single version. Raises `NotFound`, `Unavailable`."""
    if not isinstance(version, str):
        return control.catalog.get(path, version)
    aliases = control.catalog.about(path).aliases
    weights = aliases.get(version)
    if weights is None:
        control.catalog.get(path)  # without the playbook there is no alias to search
        hint = suggest(version, aliases) or (f"it has: {', '.join(sorted(aliases))}" if aliases else "it has no alias")
        raise NotFound(f"playbook {path} has no alias {version!r} ({hint})")
    if len(weights) > 1 and execution_id is None:
        raise NotFound(f"{path}@{version} is split between the versions {split_text(weights)}: name one of them")
    return control.catalog.get(path, ids.drawn_version(weights, path, execution_id or ""))


def check_not_deleted(control: Playbooks, path: str) -> None:
    """Raise `Deleted` if nothing may start from `path`.

    A deletion by another process takes effect after some seconds; restoring takes effect at once.
    """
    if control.catalog.about(path, fresh=False).deleted_at is None:
        return
    deleted_at = control.catalog.about(path).deleted_at
    if deleted_at is not None:
        when = to_rfc3339(deleted_at)
        raise Deleted(f"playbook {path} was deleted at {when} (`noetl playbooks undelete {path}` brings it back)")


def split_text(weights: Mapping[int, int]) -> str:
    """Return the weights of an alias for people: `7`, or `7=90 8=10`."""
    if len(weights) == 1:
        return str(next(iter(weights)))
    return " ".join(f"{version}={weight}" for version, weight in sorted(weights.items()))


def set_alias(control: Control, path: str, name: str, weights: Mapping[int, int] | None, by: str = "") -> PathRecord:
    """Set the versions of an alias, each with its weight; None removes the alias. Raises `BadLabel`, `NotFound`."""
    if weights is not None:
        _check_alias(control, path, name, weights)
    shares = {version: weight for version, weight in (weights or {}).items() if weight}
    split = shares if len(shares) > 1 else dict.fromkeys(shares, 1)

    def change(record: PathRecord) -> tuple[PathRecord, str]:
        before = record.aliases.get(name)
        previous = "none" if before is None else split_text(before)
        if weights is None:
            if before is None:
                hint = suggest(name, record.aliases) or f"it has: {', '.join(sorted(record.aliases)) or 'none'}"
                raise NotFound(f"playbook {path} has no alias {name!r} ({hint})")
            return replace(
                record, aliases={k: v for k, v in record.aliases.items() if k != name}
            ), f"alias {name}: {previous} -> none"
        if before == split:
            return record, ""
        if before is None and len(record.aliases) >= MAX_ALIASES:
            raise BadLabel(f"playbook {path} has {MAX_ALIASES} aliases, the maximum: remove one")
        return replace(record, aliases={**record.aliases, name: split}), f"alias {name}: {previous} -> {split_text(split)}"

    return _changed(control, path, change, by)


def _check_alias(control: Control, path: str, name: str, weights: Mapping[int, int]) -> None:
    if not ALIAS.match(name) or name == LATEST:
        raise BadLabel(f"{name[:80]!r} cannot be an alias: write a letter, then at most 63 of a-z 0-9 _ . -; not latest")
    if not 0 < len(weights) <= MAX_SPLIT:
        raise BadLabel(f"an alias refers to one to {MAX_SPLIT} versions, not {len(weights)}")
    for version, weight in weights.items():
        if not 0 <= weight <= MAX_WEIGHT:
            raise BadLabel(f"the weight of version {version} is {weight}: it must be a whole number from 0 to {MAX_WEIGHT}")
        if not 0 < version <= MAX_VERSION:
            raise BadLabel(f"{version} is not a version: versions are numbered from 1")
        control.catalog.get(path, version)
    if not any(weights.values()):
        raise BadLabel("all weights are 0: at least one weight must be above 0")


def set_tags(control: Control, path: str, add: Iterable[str], remove: Iterable[str], by: str = "") -> PathRecord:
    """Add and remove tags. Raises `BadLabel`, `NotFound`."""
    added, removed = list(dict.fromkeys(add)), set(remove)
    for tag in added:
        if not TAG.match(tag):
            raise BadLabel(f"{tag[:80]!r} cannot be a tag: up to 64 letters, digits and _ . : = / -, a letter or digit first")

    def change(record: PathRecord) -> tuple[PathRecord, str]:
        tags = tuple(dict.fromkeys([t for t in record.tags if t not in removed] + [t for t in added if t not in removed]))
        if len(tags) > MAX_TAGS:
            raise BadLabel(f"playbook {path} would have {len(tags)} tags; it may have {MAX_TAGS}")
        if tags == record.tags:
            return record, ""
        return replace(record, tags=tags), f"tags: {', '.join(record.tags) or 'none'} -> {', '.join(tags) or 'none'}"

    return _changed(control, path, change, by)


def delete(control: Control, path: str, by: str = "") -> PathRecord:
    """Prevent new starts from the playbook.

    Executions in progress continue, and its versions stay. Deleting again changes nothing.
    """
    now = control.clock.now()
    return _changed(control, path, lambda r: (r, "") if r.deleted_at is not None else (replace(r, deleted_at=now), "deleted"), by)


def undelete(control: Control, path: str, by: str = "") -> PathRecord:
    """Undo `delete`."""
    return _changed(control, path, lambda r: (r, "") if r.deleted_at is None else (replace(r, deleted_at=None), "undeleted"), by)


def record_change(control: Control, path: str, what: str) -> None:
    """Record that the current principal changed something about an existing path. Raises `Unavailable`."""
    _put_change(control, path, lambda record: (record, what), "")


def _changed(control: Control, path: str, change: Callable[[PathRecord], tuple[PathRecord, str]], by: str) -> PathRecord:
    """Apply a change to the record of a path, and record the change; an empty change is not recorded.

    Raises `NotFound` if nothing is registered under the path.
    """
    control.catalog.get(path)
    return _put_change(control, path, change, by)


def _put_change(control: Control, path: str, change: Callable[[PathRecord], tuple[PathRecord, str]], by: str) -> PathRecord:
    def attempt() -> PathRecord:
        before = control.catalog.about(path)
        after, what = change(before)
        if not what:
            return before
        recorded = PathChange(control.clock.now(), by or ("" if control.by is None else control.by["principal"]), what)
        after = replace(after, revision=before.revision + 1, changes=(recorded, *before.changes)[:KEPT_CHANGES])
        control.catalog.put_about(after)
        return after

    return retry_conflicts(attempt, f"the record of {path}")
