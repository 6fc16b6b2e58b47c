"""Plays recorded executions again with another version of their playbook, and compares recorded executions with each other.

Tasks answer as they did in the recorded execution. A call that was not recorded has no answer, and is reported. Nothing outside
is
called.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from noetl_core.testing.files import Case, read
from noetl_core.testing.judge import judge
from noetl_core.testing.match import differences
from noetl_core.testing.play import Played, Scene, play
from noetl_core.testing.recording import WAYS, Place, Recorded, Way, exact_answers, record, scripted

SHOWN: Final = 5
"""Differences of a result that are shown."""


@dataclass(frozen=True)
class Rehearsed:
    """An execution played with another version: how it differs, the calls that had not been made, and how many calls were made
    before and are made now. `skipped` is the reason why it could not be played."""

    execution_id: str
    changes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    calls: tuple[int, int] = (0, 0)
    skipped: str = ""

    @property
    def same(self) -> bool:
        return not (self.changes or self.unknown or self.skipped)


def rehearse(recorded: Recorded, text: str) -> Rehearsed:
    """Play a recorded execution with the playbook `text`."""
    execution_id = recorded.executions[0][1][0]["execution_id"]
    with replaying(recorded) as found:
        if isinstance(found, str):
            return Rehearsed(execution_id, skipped=found)
        before, scene, _ = found
        after = _ended(replace(scene, text=text))
    unknown = tuple(dict.fromkeys(each.task for each in after.unanswered))
    changes = () if unknown else tuple(_changes(before, after))
    more = len(after.calls) - len(before.calls)
    if more > 0 and not unknown:
        changes = (*changes, f"{more} more call{'s' * (more > 1)} of tools")
    return Rehearsed(execution_id, changes, unknown, (len(before.calls), len(after.calls)))


@contextmanager
def replaying(recorded: Recorded) -> Iterator[tuple[Played, Scene, Way] | str]:
    """Yield the scene that repeats a recorded execution, with its outcome and the kind of its recording; otherwise the reason why
    there is none."""
    with tempfile.TemporaryDirectory(prefix="noetl-rehearse-") as folder:
        why = "it does not replay"
        for way in WAYS:
            case, scene = scene_of(recorded, way, Path(folder))
            played = _ended(scene)
            if played.unanswered:
                why = f"task {played.unanswered[0].task}: {played.unanswered[0].why}"
            elif not (wrong := judge(case, played)):
                yield played, scene, way
                return
            else:
                why = wrong[0].text
        yield why


def scene_of(recorded: Recorded, way: Way, folder: Path) -> tuple[Case, Scene]:
    """Return the recorded execution as a case in `folder`, and as a scene whose tasks answer the recorded calls alone."""
    root = recorded.executions[0][0].path
    for number, (path, text) in enumerate(recorded.texts.items()):
        (folder / ("playbook.yaml" if path == root else f"called-{number}.yaml")).write_text(text, "utf-8")
    test = record(recorded, "recorded", "playbook.yaml", way, "values")
    for name, value in test.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value), "utf-8")
    file = folder / "playbook.test.yaml"
    file.write_text(test.text, "utf-8")
    (case,) = read(file)
    answers = exact_answers(recorded, way)
    tools = {name: [scripted(place, entry) for place, entry in some] for name, some in answers.items()}
    return case, replace(case.scene, tools=tools)


def _ended(scene: Scene) -> Played:
    played = play(scene)
    _ = played.result, played.ctx, played.path, played.summary  # they are read from its store
    played.close()
    return played


def _changes(before: Played, after: Played) -> Iterator[str]:
    if before.status != after.status:
        yield f"{before.status} becomes {after.status}{_because(after)}"
    elif before.status == "failed" and _error(before) != _error(after):
        yield f"it fails differently: {_error(before)} becomes {_error(after)}"
    if before.path != after.path:
        yield f"another way: {_way(before.path)} becomes {_way(after.path)}"
    if before.status == after.status == "completed":
        found = [text.replace(", expected ", ", was ") for text in differences(before.result, after.result, "result")]
        yield from found[:SHOWN]
        if len(found) > SHOWN:
            yield f"{len(found) - SHOWN} more differences of the result"


def _because(played: Played) -> str:
    return "" if played.error is None else f" ({_error(played)})"


def _error(played: Played) -> str:
    error = played.error or {}
    place = ".".join(str(error[key]) for key in ("step", "task") if error.get(key))
    return " ".join(part for part in (place, str(error.get("kind", ""))) if part) + f": {str(error.get('message', ''))[:200]}"


def _way(path: Sequence[str]) -> str:
    """Return the steps of a path, equal ones in a row once."""
    return " -> ".join(step for number, step in enumerate(path) if not number or path[number - 1] != step)


# --- the one value that makes the difference ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """The value that makes the difference between two executions: its place, and its value in the good and in the bad one.
    `tried` is the number of executions that were played to find it. `with_others` is the number of other values of the bad
    execution without which it makes no difference."""

    what: str
    good: Any
    bad: Any
    tried: int
    with_others: int = 0


@dataclass
class _Inputs:
    """The inputs of an execution: its payload and its tasks' answers, by their places."""

    values: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, scene: Scene, answers: Mapping[str, list[tuple[Place, dict[str, Any]]]]) -> _Inputs:
        values: dict[tuple[Any, ...], Any] = {("payload", key): value for key, value in scene.payload.items()}
        values |= {("ctx", key): value for key, value in scene.ctx.items()}
        values |= {("task", name, place): entry for name, some in answers.items() for place, entry in some}
        return cls(values)

    def scene(self, scene: Scene) -> Scene:
        """Return the scene with these inputs."""
        tools: dict[str, list[dict[str, Any]]] = {}
        for key, value in self.values.items():
            if key[0] == "task":
                tools.setdefault(key[1], []).append(scripted(key[2], value))
        payload, ctx = ({key[1]: v for key, v in self.values.items() if key[0] == name} for name in ("payload", "ctx"))
        return replace(scene, payload=payload, ctx=ctx, tools=tools)


class NoDifference(Exception):
    """No single value makes the difference; the message says why."""


def bisect(good: Recorded, bad: Recorded) -> Difference:
    """Find the value of the bad execution with which the good one ends badly, too, by halving the differing values. Raises
    `NoDifference`."""
    with replaying(good) as first, replaying(bad) as second:
        for which, found in (("good", first), ("bad", second)):
            if isinstance(found, str):
                raise NoDifference(f"the {which} execution cannot be played again: {found}")
        assert not isinstance(first, str) and not isinstance(second, str)
        ours = _Inputs.of(first[1], exact_answers(good, first[2]))
        theirs = _Inputs.of(second[1], exact_answers(bad, second[2]))
        if _sign(first[0]) == _sign(second[0]):
            raise NoDifference("both executions end alike")
        sign = _sign(second[0])
        keys = [key for key in {**ours.values, **theirs.values} if ours.values.get(key) != theirs.values.get(key)]
        tried = 0

        def is_bad(number: int, begin: int = 0) -> bool:
            """Return whether the execution ends like the bad one with its values `begin` to `number`, the others good."""
            nonlocal tried
            tried += 1
            values = {**ours.values}
            for key in keys[begin:number]:
                values.pop(key, None)
                if key in theirs.values:
                    values[key] = theirs.values[key]
            rest = {key: value for key, value in theirs.values.items() if key not in ours.values}
            return _sign(_ended(_Inputs({**rest, **values}).scene(first[1]))) == sign

        if not keys or not is_bad(len(keys)):
            raise NoDifference("with the inputs and answers of the bad execution, the good one does not end like the bad one")
        low, high = 0, len(keys)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_bad(middle) else (middle, high)
        key = keys[high - 1]
        others = 0 if high == 1 or is_bad(high, high - 1) else high - 1
        return Difference(_what(key), ours.values.get(key), theirs.values.get(key), tried, others)


def _sign(played: Played) -> tuple[Any, ...]:
    """Return the values by which a good end differs from a bad one."""
    error = played.error or {}
    return played.status, error.get("kind"), error.get("step"), json.dumps(played.result, sort_keys=True)


def _what(key: tuple[Any, ...]) -> str:
    if key[0] != "task":
        return f"{key[0]}.{key[1]}"
    run, path, visit, attempt = key[2]
    parts = [f"@{'.'.join(map(str, path))}" if path else ""]
    parts += [f" {name} {number}" for name, number in (("run", run), ("visit", visit), ("attempt", attempt)) if number > 1]
    return f"answer of {key[1]}{''.join(parts)}"
