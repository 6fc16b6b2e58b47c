"""The API's answers about the catalog: playbooks, their versions, validation. As in `shapes`."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict


class PlaybookVersion(TypedDict):
    """A version of a playbook. `version` is 0 for a text that was started without being registered."""

    path: str
    version: int
    digest: str


class RegisteredPlaybook(PlaybookVersion):
    """A playbook that was registered now, or earlier with the same text.

    `warnings` name parts that cannot work here, such as a trigger that can never fire or a payload that a registered playbook
    does not take.
    """

    name: str
    warnings: list[str]


class PlaybookSource(PlaybookVersion):
    """A version with its text; with the defaults of its workload and their schema (`x-schema`), if it can still be read."""

    source: str
    workload: NotRequired[dict[str, Any]]
    inputs: NotRequired[dict[str, Any] | None]


class ListedPlaybook(PlaybookVersion):
    """The latest version of a playbook, with the aliases and tags of its path. An alias has the weight of each of its
    versions."""

    aliases: NotRequired[dict[str, dict[str, int]]]
    tags: NotRequired[list[str]]
    deleted_at: NotRequired[str]


class Playbooks(TypedDict):
    """The latest version of each playbook."""

    playbooks: list[ListedPlaybook]


class PathChange(TypedDict):
    """A change to a path; `by` is empty if the author is unknown."""

    at: str
    by: str
    what: str


class AboutPlaybook(TypedDict):
    """The state of a path: its latest version, its aliases (with the weight of each version), its tags, the time of its deletion
    (null: not deleted), and its last changes, the newest first."""

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
    """The occurrences of a backfill, and its execution, unless it was only a preview; `created` is false if the same backfill was
    requested before."""

    playbook: PlaybookVersion
    trigger: str
    occurrences: int
    first: str
    last: str
    execution_id: NotRequired[str]
    created: NotRequired[bool]


class PlannedRange(TypedDict):
    """The least, the usual and the most seconds, or US dollars."""

    low: float
    typical: float
    high: float
    currency: NotRequired[str]


class PlannedStep(TypedDict):
    """The forecast of a step. `share` is the part of the past executions that ran it; null if none did."""

    step: str
    seconds: PlannedRange
    cost: PlannedRange
    share: float | None


class Plan(TypedDict):
    """The forecast of an execution, with what it assumes. `read` counts the past executions that were examined, `failed` those of
    them that failed, and `runs` the completed ones, from which it learns."""

    path: str
    runs: int
    read: int
    failed: int
    seconds: PlannedRange
    cost: PlannedRange
    steps: list[PlannedStep]
    assumes: list[str]


class Diagnostic(TypedDict):
    """An error or a warning about a playbook, with its place."""

    loc: str
    code: str
    severity: str
    message: str
    hint: str
    page: str | None
    line: int
    col: int


class PlaybookInputs(TypedDict):
    """The defaults of a playbook's workload, and their schema (`x-schema`)."""

    workload: dict[str, Any]
    inputs: dict[str, Any] | None


class ValidPlaybook(PlaybookInputs):
    """The path of a text, and its inputs."""

    path: str


class Validation(TypedDict):
    """The validity of a playbook, and the diagnostics; `warnings` as for a registration; `playbook` if it is valid."""

    valid: bool
    diagnostics: list[Diagnostic]
    warnings: list[str]
    playbook: NotRequired[ValidPlaybook]
