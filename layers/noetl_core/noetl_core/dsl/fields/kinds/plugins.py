"""The kinds `snowflake` and `container`, implemented by separate distributions, like `quantum` (in `calls`)."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.kind import FLAG, MAP, TEXT, KindSpec, words
from noetl_core.dsl.fields.kinds.data import EACH, MAX_ROWS, SQL, SQL_NAMES, TABLE_OR_REFERENCE
from noetl_core.dsl.fields.types import Anything, Block, Duration, Field, also
from noetl_core.dsl.numbers import LOOK

NETWORK: Final = Block(
    "network",
    "Where a task of ECS is in a VPC.",
    "../tools/container.md",
    Field("subnets", Anything("a list of ids"), "The subnets; the ECS task is put into one of them.", required=True),
    Field("security_groups", Anything("a list of ids"), "The security groups of the ECS task.", otherwise="the VPC's default"),
    Field(
        "public_ip",
        FLAG,
        "Whether the ECS task has a public address. Without one, it needs another way to reach its image.",
        default=False,
    ),
)

KINDS: Final[dict[str, KindSpec]] = {
    "snowflake": KindSpec(
        (
            *SQL,
            *also(
                Field("auth", Anything("a name or a mapping"), "The credential to connect with: its name, or its fields."),
                "credential",
                "connection",
            ),
            *(
                Field(name, TEXT, f"The {name} of the session.", otherwise="that of the credential")
                for name in ("database", "schema", "warehouse", "role")
            ),
            Field("rows", Anything("a list"), "Runs the one command for each of these rows."),
            Field(
                "to",
                Anything("`csv` or `jsonl`"),
                "Writes the rows of the last statement to a file; the result of the task is a reference to it.",
                otherwise="the rows are the result",
            ),
        ),
        (
            MAX_ROWS,
            EACH,
            Field(
                "statement_timeout",
                Anything("a number of seconds"),
                "Seconds that one statement may take.",
                otherwise="the timeout of the task",
            ),
        ),
        "../tools/snowflake.md",
        required=(SQL_NAMES,),
        exclusive=(SQL_NAMES, words("params args"), words("auth credential connection"), words("rows to")),
        script="command",
        gives=TABLE_OR_REFERENCE,
    ),
    "container": KindSpec(
        (
            Field("cluster", TEXT, "The cluster of ECS to run in.", default="default"),
            Field("task_definition", TEXT, "What to run: `family` (its newest revision), or `family:revision`."),
            Field(
                "container",
                TEXT,
                "The container whose exit code counts. `command` and `env` apply to this container, and require this field.",
                otherwise="all containers count; the exit code is the first that is not 0, else 0",
            ),
            Field("command", Anything("a list of words"), "Replaces the command of the container."),
            Field(
                "env",
                MAP,
                "Environment variables of the container, in addition to those of its definition. They must not be secrets.",
            ),
            Field("cpu", Anything("CPU units"), "Replaces the CPU units of the ECS task."),
            Field("memory", Anything("MiB"), "Replaces the memory of the ECS task."),
            Field("network", NETWORK, "Where the task is in a VPC, which Fargate wants to know."),
            Field(
                "launch_type",
                Anything("`FARGATE`, `EC2` or `EXTERNAL`"),
                "The platform that runs the ECS task.",
                otherwise="the strategy of the cluster",
            ),
            Field("capacity_provider", TEXT, "The capacity provider to run on, such as `FARGATE_SPOT`."),
            Field("platform_version", TEXT, "The platform version of Fargate.", otherwise="the newest"),
            Field(
                "poll",
                Duration(LOOK),
                "How often to look at the ECS task.",
                otherwise="10 s at first, then longer, up to 5 minutes",
            ),
            Field("region", TEXT, "The Region of the cluster.", otherwise="that of the worker"),
        ),
        (),
        "../tools/container.md",
        required=(words("task_definition"),),
        exclusive=(words("launch_type capacity_provider"),),
        needs={"command": "container", "env": "container"},
        gives=words("exit_code task stopped_reason containers started_at stopped_at"),
    ),
}
