"""Identifiers, derived from what caused them: when something is done twice, it writes the same item.

| id | derived from | why nothing collides |
|---|---|---|
| token | execution, source run (or `start`), arc index, epoch | an arc fires at most once per run; a redrive is another epoch |
| step run | execution, consumed token ids (sorted), epoch | a token is consumed once per epoch |
| chunk run | execution, step run, chunk index, epoch | chunks of a run are numbered; a redriven chunk is another epoch |
| task run | step run, iteration path, task name, visit ordinal in this run | page 2 is visit 2; a retry keeps the visit |
| child execution | parent execution, task run | one task visit starts one child |
| failure handler | failed execution, epoch | an execution ends once in an epoch |
| compensation run | execution, step run | a run is compensated once: redriven, it is another run |
| stop run | execution, ended run | a run ends once |
| claim | execution, run, frame | frames of a run are numbered; it is not hashed, as people read it in their tables |
| trigger | path, name | a playbook has one trigger of a name; it is not hashed, as it says where the trigger is |
| wait | task run, attempt, what | each attempt of a visit waits for one thing of a kind |

`tests/unit/engine/test_ids.py` has a collision test per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

EXECUTION_ID_LIMIT = 1 << 63


def _digest(kind: str, *parts: object) -> bytes:
    """Return a hash of length-prefixed parts, so that ("a", "bc") and ("ab", "c") differ."""
    texts = [str(part).encode() for part in parts]
    return blake2b(kind.encode() + b"".join([b"%d:%b" % (len(text), text) for text in texts]), digest_size=16).digest()


def _short(kind: str, *parts: object) -> str:
    return _digest(kind, *parts)[:12].hex()


def token_id(execution_id: str, source_run: str | None, arc: int, epoch: int = 0) -> str:
    """Return the id of the token that an arc produces; `source_run` is None for the start token."""
    return "t" + _short("token", execution_id, source_run or "start", arc, epoch)


def step_run_id(execution_id: str, tokens: Iterable[str], epoch: int = 0) -> str:
    """Return the id of the run that consumes `tokens` (several at a join; their order does not matter)."""
    return "r" + _short("run", execution_id, *sorted(tokens), epoch)


def chunk_run_id(execution_id: str, run_id: str, chunk: int, epoch: int = 0) -> str:
    """Return the id of the run of one chunk of a distributed loop."""
    return "c" + _short("chunk", execution_id, run_id, chunk, epoch)


def compensation_run_id(execution_id: str, run_id: str) -> str:
    """Return the id of the run that compensates `run_id`."""
    return "u" + _short("undo", execution_id, run_id)


def stop_run_id(execution_id: str, run_id: str) -> str:
    """Return the id of the run that stops the outside work of `run_id`."""
    return "s" + _short("stop", execution_id, run_id)


def redriven_token_id(execution_id: str, token: str, epoch: int) -> str:
    """Return the id of the token that a redrive puts back in place of `token`."""
    return token_id(execution_id, "again:" + token, 0, epoch)


def task_run_id(run_id: str, path: Sequence[int], task: str, visit: int) -> str:
    """Return the idempotency key of a task visit, which tools get. It is the same after a crash and in every retry of the
    visit.

    `run_id` is always the *step* run, also in chunks, and `path` is the indexes of the iteration, outermost first. So the key
    does not depend on how a loop is cut into chunks.
    """
    return "k" + _short("task", run_id, ".".join(map(str, path)), task, visit)


def wait_id(task_run: str, attempt: int, what: str) -> str:
    """Return the id of a wait: `what` is timer, child, signal or callback."""
    return "w" + _short("wait", task_run, attempt, what)


def claim_id(execution_id: str, run_id: str, frame: int | str) -> str:
    """Return the id under which a source has the claim of a frame of a cursor loop."""
    return f"{execution_id}/{run_id}/{frame}"


TRIGGER = "trigger:"
BACKFILL = "backfill:"


def trigger_id(path: str, name: str) -> str:
    """Return the id of a trigger in the due index, beside executions."""
    return f"{TRIGGER}{path}:{name}"


def trigger_of(due: str) -> tuple[str, str] | None:
    """Return path and name of the trigger that a due item is of; None for an execution's. No name has a colon in it."""
    if not due.startswith(TRIGGER):
        return None
    path, _, name = due.removeprefix(TRIGGER).rpartition(":")
    return path, name


def occurrence_key(path: str, name: str, occurrence: str) -> str:
    """Return the idempotency key of the execution that an occurrence of a trigger starts."""
    return f"{trigger_id(path, name)}:{occurrence}"


def is_derived(key: str) -> bool:
    """Return whether an idempotency key is one that the engine derives. A caller with such a key would take the place of a start
    that must happen once."""
    return key.startswith((TRIGGER, BACKFILL))


def child_execution_id(parent: str, task_run: str) -> str:
    """Return the execution id of the child that a task visit starts. It is derived, so the child is created once."""
    return _execution_number(_digest("child", parent, task_run))


def failure_handler_id(execution_id: str, epoch: int) -> str:
    """Return the execution id of the handler of an execution's failed end: each redrive may have another failed end."""
    return _execution_number(_digest("failure", execution_id, epoch))


def execution_id_from_key(key: str) -> str:
    """Return the execution id of an idempotency key."""
    return _execution_number(_digest("key", key))


def execution_id_at(ts_us: int, noise: int) -> str:
    """Return an execution id that sorts by time: 42 bits of milliseconds and 21 bits of `noise`."""
    return str(((ts_us // 1000) % (1 << 42) << 21) | (noise % (1 << 21)))


def drawn_version(weights: Mapping[int, int], path: str, execution_id: str) -> int:
    """Return one of the versions of a playbook, each as often as its weight says. It follows from the execution, so asking again
    gives the same."""
    place = int.from_bytes(_digest("version", path, execution_id)[:8], "big") % sum(weights.values())
    for version, weight in sorted(weights.items()):
        if place < weight:
            return version
        place -= weight
    raise AssertionError("the weights must be whole numbers")


def _execution_number(digest: bytes) -> str:
    return str(int.from_bytes(digest[:8], "big") % EXECUTION_ID_LIMIT)
