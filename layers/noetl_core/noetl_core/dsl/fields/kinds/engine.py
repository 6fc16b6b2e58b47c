"""The kinds that the engine runs itself, or that normalisation resolves."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.kind import FLAG, MAP, TEXT, KindSpec, words
from noetl_core.dsl.fields.types import Anything, Duration, Field, also
from noetl_core.dsl.numbers import ANSWER, HEARTBEAT, WAIT

_PAYLOAD: Final = Field(
    "payload",
    MAP,
    "Values that are merged over the workload of the called playbook.",
    references=True,
)

KINDS: Final[dict[str, KindSpec]] = {
    "playbook": KindSpec(
        (
            Field("path", TEXT, "The path of the playbook in the catalog; `path@3` and `path@prod` include the version."),
            Field(
                "version",
                Anything("a whole number, or an alias"),
                "Its version: a number, or an alias of the catalog.",
                otherwise="the latest one",
                link="../catalog.md#aliases",
            ),
            *also(_PAYLOAD, "args", "workload"),
            Field("ctx", MAP, "The initial `ctx` of the child.", references=True),
            Field("result", TEXT, "The part of the child's result to return, such as `rows.0.id`.", otherwise="all of it"),
            Field(
                "return_step",
                TEXT,
                "The task returns the result of this step of the child.",
                otherwise="the result of the child",
                link="migrate.md#sub-playbooks",
            ),
            Field(
                "return_result",
                FLAG,
                "Whether to wait for the result. Accepted without effect: the task waits unless `detach` is set.",
                effect=False,
                link="migrate.md#without-effect",
            ),
            Field("detach", FLAG, "true does not wait for the end of the child; the result is `{execution_id}`.", default=False),
            Field(
                "backfill",
                MAP,
                "Runs the child for an occurrence of a schedule. The child sees `name`, `scheduled_at` and `previous_at` in"
                " `trigger`, whose kind is `backfill`.",
                link="../backfill.md",
            ),
            Field("idempotency_key", TEXT, "With `detach`: the same key starts the child only once."),
        ),
        (),
        "waiting.md#sub-playbooks",
        required=(words("path"),),
        exclusive=(words("payload args workload"), words("result detach"), words("return_step detach")),
        needs={"idempotency_key": "detach"},
    ),
    "callback": KindSpec(
        (
            Field(
                "signal",
                TEXT,
                "The name of the signal to wait for.",
                otherwise="the task waits for an answer by token",
                link="waiting.md#signals",
            ),
            Field("timeout", Duration(ANSWER), "How long to wait; after it the outcome is an error of kind `timeout`."),
            Field(
                "heartbeat",
                Duration(HEARTBEAT),
                "For an answer by token: the longest silence before the task fails with kind `timeout`.",
                link="waiting.md#by-token",
            ),
            Field("schema", MAP, "What the answer must be, in the subset of JSON Schema that `x-schema` uses."),
            Field("description", TEXT, "The question, for the person or system that answers."),
        ),
        (),
        "waiting.md#callback",
        exclusive=(words("signal heartbeat"),),
    ),
    "wait": KindSpec(
        (
            Field("duration", Duration(WAIT), "How long to wait."),
            Field("seconds", Duration(WAIT), "The same as `duration`."),
            Field(
                "until",
                Anything("an ISO 8601 text, or seconds since 1970"),
                "The instant to wait for; if it is in the past, the task does not wait.",
            ),
            Field("result", Anything("any value"), "The result of the task.", otherwise="`{waited_until}`"),
        ),
        (),
        "waiting.md#wait",
        required=(words("duration seconds until"),),
        exclusive=(words("duration seconds until"),),
    ),
    "workbook": KindSpec(
        (
            Field("task", TEXT, "The entry of the workbook to run.", otherwise="the entry whose name is the task's own `name`"),
            Field("args", Anything("a mapping"), "Values that are merged over the `args` of the entry."),
        ),
        (),
        "playbook.md#workbook-tasks-by-name",
    ),
}
