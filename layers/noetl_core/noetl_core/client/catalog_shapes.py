"""What the API answers about the catalog: playbooks, their versions, validation. As in `shapes`."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict


class PlaybookVersion(TypedDict):
    """A version of a playbook. `version` is 0 for a text that was started and is registered under no path."""

    path: str
    version: int
    digest: str


class RegisteredPlaybook(PlaybookVersion):
    """A playbook that was registered just now, or before with the same text."""

    name: str


class PlaybookSource(PlaybookVersion):
    """A version with its text; with the defaults of its workload and their schema (`x-schema`), where it still reads."""

    source: str
    workload: NotRequired[dict[str, Any]]
    inputs: NotRequired[dict[str, Any] | None]


class ListedPlaybook(PlaybookVersion):
    """The latest version of a playbook, with what is said about its path. An alias has the weight of each version that it stands
    for."""

    aliases: NotRequired[dict[str, dict[str, int]]]
    tags: NotRequired[list[str]]
    deleted_at: NotRequired[str]


class Playbooks(TypedDict):
    """The latest version of each playbook."""

    playbooks: list[ListedPlaybook]


class PathChange(TypedDict):
    """Something that was changed about a path; `by` is empty where nobody knows who did."""

    at: str
    by: str
    what: str


class AboutPlaybook(TypedDict):
    """What holds for a path as a whole: its latest version, its aliases (with the weight of each version), its tags, since when
    it is deleted (null: it is not), and its last changes, the newest first."""

    path: str
    latest: int
    aliases: dict[str, dict[str, int]]
    tags: list[str]
    deleted_at: str | None
    changes: list[PathChange]


class PlaybookVersions(TypedDict):
    """All versions of one playbook."""

    versions: list[PlaybookVersion]


class BackfillStarted(TypedDict):
    """What a backfill runs, and its execution, unless it was only asked what it would run; `created` is false where the same had
    been asked for before."""

    playbook: PlaybookVersion
    trigger: str
    occurrences: int
    first: str
    last: str
    execution_id: NotRequired[str]
    created: NotRequired[bool]


class Diagnostic(TypedDict):
    """What is wrong, or doubtful, in a playbook, and where."""

    loc: str
    code: str
    severity: str
    message: str
    hint: str
    page: str | None
    line: int
    col: int


class Validation(TypedDict):
    """Whether a playbook is valid, and what was found in it."""

    valid: bool
    diagnostics: list[Diagnostic]
