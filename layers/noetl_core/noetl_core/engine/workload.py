"""The workload of an execution: the request's payload merged over the playbook's defaults (formal specification 4.1).

Templates in the defaults are rendered once, when the request is admitted. Their values are stored with the request, so that
no router, worker or replay renders them again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any, Final, NoReturn

from noetl_core.dsl.inputs import GIVEN_BY_TRIGGERS, dotted
from noetl_core.dsl.model import Playbook
from noetl_core.engine.state import State, trigger_seen
from noetl_core.events.shapes import Triggered
from noetl_core.expr import LimitExceeded, Pointer, Scope, TemplateError, is_template, render
from noetl_core.expr.evaluation_limits import ITEM_SIZE
from noetl_core.expr.scope import Blanks, Resolve
from noetl_core.values.json_schema import problems
from noetl_core.values.mappings import deep_merge

MAX_CHAIN: Final = 50
"""The longest chain of defaults that need each other."""
MAX_DEFAULTS: Final = 16_000_000
"""The most that all templates among the defaults may produce: characters, and 16 for each value. Defaults that include others
twice would double at every link of a chain."""
MAX_DEFAULTS_S: Final = 5.0
"""Processor time of all templates among the defaults together: a document may have thousands, each with its own limits."""
LISTED: Final = 20
"""The most findings reported about one payload."""
COMPARISONS: Final = 5_000
"""The most comparisons of a key with a known name for one payload, which may have 100,000 keys."""
COMPARED: Final = 64
"""The most characters of a key that is compared, and of a name that is reported."""
_NOTHING: Final[Any] = object()


class BadWorkload(ValueError):
    """The inputs of the request cannot be accepted; `wrong` lists the errors. Who acts: the caller, or the author of a
    default."""

    def __init__(self, kind: str, wrong: list[str]) -> None:
        super().__init__("; ".join(wrong))
        self.kind = kind
        """`template` or `limit` for a default that cannot be rendered, `schema` for a payload against `x-schema`."""
        self.wrong = wrong


def workload_of(playbook: Playbook, state: State) -> dict[str, Any]:
    """The workload of an admitted execution: the payload is merged over the defaults (formal spec 4.1)."""
    merged = deep_merge(playbook.workload, state.payload)
    return deep_merge(merged, state.rendered) if state.rendered else merged


# --- templates among the defaults ---------------------------------------------------------------------------------------


def rendered_defaults(
    playbook: Playbook,
    payload: Mapping[str, Any],
    execution_id: str,
    resolve: Resolve | None = None,
    trigger: Triggered | None = None,
    *,
    strict: bool = False,
    blanks: Blanks | None = None,
) -> dict[str, Any]:
    """Return the values of the defaults that are templates, except those that the payload replaces. They are to be merged
    over the rest.

    The templates read the workload (the payload and the other defaults), `execution_id` and `trigger`. `resolve` loads
    references in the payload. Raises `BadWorkload` for a template that fails, and for defaults that need each other.
    """
    rendering = _Rendering(playbook.workload, payload, execution_id, resolve, trigger, strict, blanks)
    found: dict[str, Any] = rendering.overrides(playbook.workload, payload, ())
    return found


class _Rendering:
    """The merged workload with a pointer in place of each template, and the values that were rendered so far."""

    def __init__(
        self,
        defaults: Mapping[str, Any],
        payload: Mapping[str, Any],
        execution_id: str,
        resolve: Resolve | None,
        trigger: Triggered | None,
        strict: bool,
        blanks: Blanks | None,
    ) -> None:
        self._texts: dict[tuple[str | int, ...], str] = {}
        self._values: dict[tuple[str | int, ...], Any] = {}
        self._open: list[tuple[str | int, ...]] = []
        self._elsewhere = resolve
        self._size = 0
        self._began = time.thread_time()
        tree = self._merged(defaults, payload, ())
        names = {"workload": tree, "execution_id": execution_id, "trigger": trigger_seen(trigger)}
        self._scope = Scope(names, resolve=self._resolve, strict=strict, blanks=blanks)

    def overrides(self, defaults: Any, given: Any, path: tuple[str | int, ...]) -> Any:
        """Return the replacement of `defaults` at `path`; `_NOTHING` where no template has an effect."""
        if isinstance(defaults, Mapping) and (given is _NOTHING or isinstance(given, Mapping)):
            below = {k: self.overrides(v, _of(given, k), (*path, k)) for k, v in defaults.items()}
            found = {k: v for k, v in below.items() if v is not _NOTHING}
            return found if found or not path else _NOTHING
        if given is not _NOTHING:
            return _NOTHING
        if is_template(defaults):
            return self._value(path)
        if isinstance(defaults, list) and any(p[: len(path)] == path for p in self._texts):
            try:
                return self._whole(self._marked(defaults, path))
            except LimitExceeded as error:
                self._refuse(path, error.kind, error.message)
        return _NOTHING

    def _merged(self, defaults: Mapping[str, Any], payload: Mapping[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
        out = dict(payload)
        for key, mine in defaults.items():
            if key not in payload:
                out[key] = self._marked(mine, (*path, key))
            elif isinstance(mine, Mapping) and isinstance(payload[key], Mapping):
                out[key] = self._merged(mine, payload[key], (*path, key))
        return out

    def _marked(self, value: Any, path: tuple[str | int, ...]) -> Any:
        if isinstance(value, Mapping):
            return {k: self._marked(v, (*path, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [self._marked(v, (*path, n)) for n, v in enumerate(value)]
        if not is_template(value):
            return value
        self._texts[path] = value
        return Pointer(path)

    def _resolve(self, ref: Any) -> Any:
        if isinstance(ref, Pointer):
            return self._value(ref.at)
        if self._elsewhere is None:
            raise TemplateError("it reads a part of a value that is stored outside the log, which is not possible here")
        return self._elsewhere(ref)

    def _value(self, path: tuple[str | int, ...]) -> Any:
        if path in self._values:
            return self._values[path]
        if path in self._open:
            circle = [*self._open[self._open.index(path) :], path]
            raise BadWorkload("template", [f"defaults need each other: {' -> '.join(map(dotted, circle))}"])
        if len(self._open) >= MAX_CHAIN:
            self._refuse(path, "limit", f"more than {MAX_CHAIN} defaults need each other one after the other")
        self._open.append(path)
        try:
            if time.thread_time() - self._began > MAX_DEFAULTS_S:
                raise LimitExceeded(f"defaults need more than {MAX_DEFAULTS_S} s of processor time together")
            value = self._whole(render(self._texts[path], self._scope))
        except TemplateError as error:
            self._refuse(path, error.kind, error.message)
        self._open.pop()
        self._values[path] = value
        return value

    @staticmethod
    def _refuse(path: tuple[str | int, ...], kind: str, why: str) -> NoReturn:
        raise BadWorkload(kind, [f"the default {dotted(path)}: {why}"])

    def _whole(self, value: Any) -> Any:
        """Return `value` with all its templates rendered and copied, as plain JSON data."""
        if isinstance(value, Pointer):
            return self._whole(self._value(value.at))
        self._take(ITEM_SIZE)
        if isinstance(value, str):
            self._take(len(value))
        if isinstance(value, Mapping):
            self._take(sum(map(len, value)))
            return {k: self._whole(v) for k, v in value.items()}
        return [self._whole(v) for v in value] if isinstance(value, list) else value

    def _take(self, size: int) -> None:
        self._size += size
        if self._size > MAX_DEFAULTS:
            raise LimitExceeded(f"with it, defaults come to more than {MAX_DEFAULTS} characters of text and data")


def _of(given: Any, key: str) -> Any:
    return given.get(key, _NOTHING) if isinstance(given, Mapping) else _NOTHING


# --- passed values ------------------------------------------------------------------------------------------------------


def check_inputs(playbook: Playbook, workload: Mapping[str, Any]) -> None:
    """Raise `BadWorkload` unless the merged workload conforms to the playbook's `x-schema`."""
    if playbook.inputs is not None and (wrong := problems(workload, playbook.inputs, "workload")):
        raise BadWorkload("schema", wrong)


def doubts(playbook: Playbook, payload: Mapping[str, Any]) -> list[str]:
    """Return the likely mistakes in a payload: keys that the workload does not know, and types other than those of the
    defaults.

    A playbook that declares no inputs accepts any. Below the first level only a key that is nearly a known one counts as a
    mistake, because payloads may add keys to mappings.
    """
    suspected = chain(
        (words for path, near, words in unknown(playbook, payload) if near or len(path) == 1),
        _other_types(playbook.workload, payload, playbook.inputs or {}, "workload"),
    )
    found = list(islice(suspected, LISTED))
    more = sum(1 for _ in suspected)
    return found + ([f"and {more} more"] if more else [])


def unknown(playbook: Playbook, payload: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], bool, str]]:
    """Return the keys of `payload` that the workload does not know: the path, whether a known key is near, and a description."""
    if playbook.workload or playbook.inputs is not None:
        yield from _unknown(playbook.workload, payload, playbook.inputs or {}, (), _Nearest())


class _Nearest:
    """Finds the known name that a key nearly equals, with a limit on the number of comparisons per payload."""

    def __init__(self) -> None:
        self._left = COMPARISONS

    def __call__(self, key: str, names: Sequence[str]) -> str:
        if len(key) > COMPARED:
            return ""
        self._left -= len(names)
        near = get_close_matches(key, [n for n in names if len(n) <= COMPARED], 1) if self._left >= 0 else []
        return near[0] if near else ""


def _unknown(
    known: Mapping[str, Any], given: Mapping[str, Any], schema: Mapping[str, Any], path: tuple[str, ...], nearest: _Nearest
) -> Iterator[tuple[tuple[str, ...], bool, str]]:
    parts = schema.get("properties") or {}
    names = [*known, *(name for name in parts if name not in known)]
    shown = ", ".join(map(_shown, names[:LISTED]))
    for key, value in given.items():
        if key in known or key in parts:
            inner, below = known.get(key), parts.get(key) or {}
            if isinstance(value, Mapping) and ((isinstance(inner, Mapping) and inner) or below.get("properties")):
                yield from _unknown(inner if isinstance(inner, Mapping) else {}, value, below, (*path, key), nearest)
        elif schema.get("additionalProperties") is not True and (path or key not in GIVEN_BY_TRIGGERS):
            near = nearest(key, names)
            hint = f'did you mean "{near}"?' if near else f"it has {shown}"
            yield (*path, key), bool(near), f'{dotted(path)} has no "{_shown(key)}" ({hint})'


def _shown(name: str) -> str:
    return name if len(name) <= COMPARED else f"{name[:COMPARED]}..."


def _other_types(defaults: Mapping[str, Any], given: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> Iterator[str]:
    for key, value in given.items():
        mine, below = defaults.get(key), (schema.get("properties") or {}).get(key) or {}
        if mine is None or value is None or is_template(mine) or "type" in below:
            continue
        if isinstance(mine, Mapping) and isinstance(value, Mapping):
            yield from _other_types(mine, value, below, f"{where}.{key}")
        elif _kind(mine) != _kind(value):
            yield f"{where}.{key} is {_kind(value)}, where the playbook has {_kind(mine)}"


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "text" if isinstance(value, str) else "a mapping" if isinstance(value, Mapping) else "a list"
