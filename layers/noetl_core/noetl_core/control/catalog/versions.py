"""Which version of a playbook starts, and what may be changed about a path: aliases, tags, deletion (docs/catalog.md).

An alias stands for one version, or is split between several by weights: then the id of the execution decides, so whoever asks
again for the same execution gets the same answer. What an execution was started with is pinned in its log by its digest, so a
change reaches what starts afterwards only.
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
"""The most versions that one alias stands for."""
MAX_WEIGHT: Final = 1000
MAX_TAGS: Final = 20
TAG: Final = re.compile(r"[\w][\w.:=/\-]{0,63}\Z")
KEPT_CHANGES: Final = 50


class Playbooks(Protocol):
    """The registered playbooks, and what decides how they start: what is read before an execution begins."""

    @property
    def catalog(self) -> PlaybookCatalog: ...

    @property
    def playbook(self) -> PlaybookCache:
        """The parsed playbook of a digest."""
        ...

    @property
    def strict(self) -> bool:
        """Whether executions are strict whose playbooks say nothing about it."""
        ...


class Deleted(NotFound):
    """The playbook is deleted: nothing new starts from it (HTTP 410). Who acts: the caller, or whoever brings it back."""


class BadLabel(ValueError):
    """An alias, its weights or a tag cannot be like that (HTTP 422). Who acts: the caller."""


def resolve(control: Playbooks, path: str, version: Version, execution_id: str | None = None) -> PlaybookVersion:
    """Return the version that `path@version` means for the execution `execution_id`; without one, an alias must stand for one
    version alone. Raises `NotFound`, `Unavailable`."""
    if not isinstance(version, str):
        return control.catalog.get(path, version)
    aliases = control.catalog.about(path).aliases
    weights = aliases.get(version)
    if weights is None:
        control.catalog.get(path)  # without the playbook there is no alias to look for
        hint = suggest(version, aliases) or (f"it has: {', '.join(sorted(aliases))}" if aliases else "it has no alias")
        raise NotFound(f"playbook {path} has no alias {version!r} ({hint})")
    if len(weights) > 1 and execution_id is None:
        raise NotFound(f"{path}@{version} is split between the versions {split_text(weights)}: name one of them")
    return control.catalog.get(path, ids.drawn_version(weights, path, execution_id or ""))


def check_not_deleted(control: Playbooks, path: str) -> None:
    """Raise `Deleted` if nothing may start from `path`. What somebody else deleted some seconds ago may still start; what
    somebody has just brought back does."""
    if control.catalog.about(path, fresh=False).deleted_at is None:
        return
    deleted_at = control.catalog.about(path).deleted_at
    if deleted_at is not None:
        when = to_rfc3339(deleted_at)
        raise Deleted(f"playbook {path} was deleted at {when} (`noetl playbooks undelete {path}` brings it back)")


def split_text(weights: Mapping[int, int]) -> str:
    """Return the weights of an alias as a person reads them: `7`, or `7=90 8=10`."""
    if len(weights) == 1:
        return str(next(iter(weights)))
    return " ".join(f"{version}={weight}" for version, weight in sorted(weights.items()))


def set_alias(control: Control, path: str, name: str, weights: Mapping[int, int] | None, by: str = "") -> PathRecord:
    """Let the alias stand for these versions, each with its weight; None removes it. Raises `BadLabel`, `NotFound`."""
    if weights is not None:
        _check_alias(control, path, name, weights)
    shares = {version: weight for version, weight in (weights or {}).items() if weight}
    wanted = shares if len(shares) > 1 else dict.fromkeys(shares, 1)

    def change(record: PathRecord) -> tuple[PathRecord, str]:
        before = record.aliases.get(name)
        said = "none" if before is None else split_text(before)
        if weights is None:
            if before is None:
                hint = suggest(name, record.aliases) or f"it has: {', '.join(sorted(record.aliases)) or 'none'}"
                raise NotFound(f"playbook {path} has no alias {name!r} ({hint})")
            return replace(
                record, aliases={k: v for k, v in record.aliases.items() if k != name}
            ), f"alias {name}: {said} -> none"
        if before == wanted:
            return record, ""
        if before is None and len(record.aliases) >= MAX_ALIASES:
            raise BadLabel(f"playbook {path} has {MAX_ALIASES} aliases, which is all it may have: remove one")
        return replace(record, aliases={**record.aliases, name: wanted}), f"alias {name}: {said} -> {split_text(wanted)}"

    return _changed(control, path, change, by)


def _check_alias(control: Control, path: str, name: str, weights: Mapping[int, int]) -> None:
    if not ALIAS.match(name) or name == LATEST:
        raise BadLabel(
            f"{name[:80]!r} cannot be an alias: it begins with a letter, has up to 64 of a-z 0-9 _ . - and is not latest"
        )
    if not 0 < len(weights) <= MAX_SPLIT:
        raise BadLabel(f"an alias stands for one to {MAX_SPLIT} versions, not {len(weights)}")
    for version, weight in weights.items():
        if not 0 <= weight <= MAX_WEIGHT:
            raise BadLabel(f"the weight of version {version} is {weight}: it is a whole number from 0 to {MAX_WEIGHT}")
        if not 0 < version <= MAX_VERSION:
            raise BadLabel(f"{version} is no version: they are numbered from 1")
        control.catalog.get(path, version)
    if not any(weights.values()):
        raise BadLabel("all weights are 0: one of the versions must be started")


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
    """Let nothing new start from the playbook. What runs goes on, and its versions stay. Deleting again changes nothing."""
    now = control.clock.now()
    return _changed(control, path, lambda r: (r, "") if r.deleted_at is not None else (replace(r, deleted_at=now), "deleted"), by)


def undelete(control: Control, path: str, by: str = "") -> PathRecord:
    """Undo `delete`."""
    return _changed(control, path, lambda r: (r, "") if r.deleted_at is None else (replace(r, deleted_at=None), "undeleted"), by)


def record_change(control: Control, path: str, what: str) -> None:
    """Record that whoever the control plane acts for has changed something of a path that exists. Raises `Unavailable`."""
    _put_change(control, path, lambda record: (record, what), "")


def _changed(control: Control, path: str, change: Callable[[PathRecord], tuple[PathRecord, str]], by: str) -> PathRecord:
    """Apply a change to what is said about a path, and record it; an empty change is not recorded. Raises `NotFound` where
    nothing is registered under the path."""
    control.catalog.get(path)
    return _put_change(control, path, change, by)


def _put_change(control: Control, path: str, change: Callable[[PathRecord], tuple[PathRecord, str]], by: str) -> PathRecord:
    def attempt() -> PathRecord:
        before = control.catalog.about(path)
        after, what = change(before)
        if not what:
            return before
        told = PathChange(control.clock.now(), by or ("" if control.by is None else control.by["principal"]), what)
        after = replace(after, revision=before.revision + 1, changes=(told, *before.changes)[:KEPT_CHANGES])
        control.catalog.put_about(after)
        return after

    return retry_conflicts(attempt, f"the record of {path}")
