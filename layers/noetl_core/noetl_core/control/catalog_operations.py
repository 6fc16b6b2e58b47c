"""The operations of the API on the catalog (`Operations` has all)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from noetl_core.control import catalog, read
from noetl_core.control.admit import register
from noetl_core.control.backfill import Backfill, plan, start_backfill
from noetl_core.control.core import Control
from noetl_core.control.refusals import BadRequest, diagnostic
from noetl_core.control.ways_in import warnings
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import check
from noetl_core.dsl.versions import BadVersion, Version, split_version, version_of
from noetl_core.instants import to_rfc3339
from noetl_core.ports import NotFound, PathRecord

if TYPE_CHECKING:
    from noetl_core.client import catalog_shapes

SOURCE = "<body>"
"""What a playbook's text is called in its diagnostics."""


class CatalogOperations:
    """Playbooks: their versions, and what is said about their paths."""

    __slots__ = ()
    control: Callable[[], Control]

    def register(self, source: str, name: str = SOURCE) -> catalog_shapes.RegisteredPlaybook:
        playbook, version = register(self.control(), source, name)
        return {**read.version_as_dict(version), "name": playbook.name, "warnings": self._warnings(playbook)}

    def validate(self, source: str) -> catalog_shapes.Validation:
        known = self.control().playbook
        playbook, found = check(known.pinned(source), SOURCE, called=known.called)
        said = [] if playbook is None else self._warnings(playbook)
        return {"valid": playbook is not None, "diagnostics": [diagnostic(d) for d in found], "warnings": said}

    def _warnings(self, playbook: Playbook) -> list[str]:
        """Return what this stack lacks for a playbook."""
        tools = self.control().worker_tools
        return warnings(self.control().ways_in, playbook) + ([] if tools is None else list(tools.lacking(playbook)))

    def playbooks(
        self, prefix: str | None = None, *, tag: str | None = None, deleted: bool | None = None
    ) -> catalog_shapes.Playbooks:
        """The playbooks that may be started; with `deleted`, those that are deleted."""
        records = {record.path: record for record in self.control().catalog.all_about(prefix or "")}
        shown: list[catalog_shapes.ListedPlaybook] = []
        for version in self.control().catalog.list(prefix or ""):
            about = records.get(version.path) or PathRecord(version.path)
            if (about.deleted_at is not None) == bool(deleted) and (tag is None or tag in about.tags):
                shown.append(_listed(read.version_as_dict(version), about))
        return {"playbooks": shown}

    def playbook(self, path: str, version: Version = None) -> catalog_shapes.PlaybookSource:
        path, version = named(path, version)
        return read.playbook_source(self.control(), catalog.resolve(self.control(), path, version))

    def playbook_versions(self, path: str) -> catalog_shapes.PlaybookVersions:
        found = self.control().catalog.versions(path)
        if not found:
            raise NotFound(f"no playbook {path}")
        return {"versions": [read.version_as_dict(v) for v in found]}

    def about_playbook(self, path: str) -> catalog_shapes.AboutPlaybook:
        latest = self.control().catalog.get(path)
        return _about(self.control().catalog.about(path), latest.version)

    def set_alias(
        self, path: str, name: str, weights: Mapping[int, int] | None, *, by: str | None = None
    ) -> catalog_shapes.AboutPlaybook:
        """Let an alias stand for versions, each with its weight; None removes it."""
        return self._changed(catalog.set_alias(self.control(), path, name, weights, by or ""))

    def tag_playbook(
        self, path: str, add: Sequence[str] = (), remove: Sequence[str] = (), *, by: str | None = None
    ) -> catalog_shapes.AboutPlaybook:
        return self._changed(catalog.set_tags(self.control(), path, add, remove, by or ""))

    def delete_playbook(self, path: str, *, by: str | None = None) -> catalog_shapes.AboutPlaybook:
        return self._changed(catalog.delete(self.control(), path, by or ""))

    def undelete_playbook(self, path: str, *, by: str | None = None) -> catalog_shapes.AboutPlaybook:
        return self._changed(catalog.undelete(self.control(), path, by or ""))

    def backfill(
        self,
        path: str,
        begin: str,
        end: str,
        *,
        version: Version = None,
        trigger: str | None = None,
        parallel: int | None = None,
        again: str | None = None,
        preview: bool | None = None,
    ) -> catalog_shapes.BackfillStarted:
        """Run a playbook for the occurrences of its schedule from `begin` to before `end`; with `preview` only say which."""
        bare, at = named(path, version)
        asked = Backfill(bare, begin, end, at, trigger, 1 if parallel is None else parallel, again or "")
        planned = plan(self.control(), asked)
        instants = [each["backfill"]["scheduled_at"] for each in planned.occurrences]
        shown: catalog_shapes.BackfillStarted = {
            "playbook": read.version_as_dict(self.control().catalog.get(bare, planned.version)),
            "trigger": planned.trigger,
            "occurrences": len(instants),
            "first": instants[0],
            "last": instants[-1],
        }
        if preview:
            return shown
        started = start_backfill(self.control(), asked, planned)
        return {**shown, "execution_id": started.execution_id, "created": started.created}

    def _changed(self, record: PathRecord) -> catalog_shapes.AboutPlaybook:
        return _about(record, self.control().catalog.get(record.path).version)


def named(path: str, version: object) -> tuple[str, Version]:
    """Return the path and the version of a request, where the path may be `path@version`. Raises `BadRequest`."""
    try:
        bare, at = split_version(path)
        asked = version_of(version)
    except BadVersion as error:
        raise BadRequest(str(error), "body.version") from None
    if at is not None and asked is not None:
        raise BadRequest(f"{path} names a version, and `version` is {asked}", "body.version", "leave one of them out")
    return bare, at if asked is None else asked


def _listed(version: catalog_shapes.PlaybookVersion, about: PathRecord) -> catalog_shapes.ListedPlaybook:
    shown: catalog_shapes.ListedPlaybook = {"path": version["path"], "version": version["version"], "digest": version["digest"]}
    if about.aliases:
        shown["aliases"] = _aliases(about)
    if about.tags:
        shown["tags"] = list(about.tags)
    if about.deleted_at is not None:
        shown["deleted_at"] = to_rfc3339(about.deleted_at)
    return shown


def _about(record: PathRecord, latest: int) -> catalog_shapes.AboutPlaybook:
    return {
        "path": record.path,
        "latest": latest,
        "aliases": _aliases(record),
        "tags": list(record.tags),
        "deleted_at": None if record.deleted_at is None else to_rfc3339(record.deleted_at),
        "changes": [{"at": to_rfc3339(c.at), "by": c.by, "what": c.what} for c in record.changes],
    }


def _aliases(record: PathRecord) -> dict[str, dict[str, int]]:
    return {name: {str(v): w for v, w in sorted(weights.items())} for name, weights in sorted(record.aliases.items())}
