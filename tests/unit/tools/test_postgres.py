"""`kind: postgres` against a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import AddressPolicy
from noetl_core.tools.postgres.connections import MAX_OPEN, AllInUse, Connections
from noetl_core.tools.postgres.tool import PostgresTool
from tests.fake_dns import resolve

from .conftest import kind

Postgres = Callable[..., Outcome]
FOR_EVER = "SELECT pg_sleep(600)"
"""Longer than a test may take: what ends has been ended."""


@pytest.fixture(scope="module")
def tool() -> Iterator[PostgresTool]:
    tool = PostgresTool(AddressPolicy(allow_private=True))
    yield tool
    tool.close()


@pytest.fixture
def pg(tool: PostgresTool, uri: str) -> Postgres:
    def call(
        command: Any, spec: dict[str, Any] | None = None, cancelled: Any = None, timeout_s: float = 10.0, **inputs: Any
    ) -> Outcome:
        all_inputs = {"command": command, "auth": "pg_test", **inputs}
        fields = {} if cancelled is None else {"cancelled": cancelled}
        secrets = {"pg_test": {"type": "postgres", "data": {"dsn": uri}}}
        return invoke(
            tool,
            ToolCall(
                "postgres",
                all_inputs,
                spec or {},
                "1",
                "s",
                "t",
                "run-1",
                timeout_s=timeout_s,
                secrets=secrets.__getitem__,
                **fields,
            ),
        )

    return call


@pytest.fixture
def people(pg: Postgres) -> Iterator[None]:
    assert pg(["CREATE TABLE people (id INT PRIMARY KEY, name TEXT NOT NULL, info JSONB)"]).error is None
    yield
    assert pg("DROP TABLE people").error is None


def test_rows_columns_and_count_as_plain_data(pg: Postgres) -> None:
    command = """SELECT 1 AS a, 2.50::numeric AS b, DATE '2020-01-02' AS c, TIMESTAMPTZ '2020-01-02 03:04:05+00' AS d, '{"x": [1]}'::jsonb AS e,
                 ARRAY[1,2] AS f, 'ab'::bytea AS g, 'NaN'::float8 AS h, NULL AS i, '0f0e0d0c-0b0a-0908-0706-050403020100'::uuid AS j, 1e20::numeric AS k"""
    outcome = pg(command)
    row = outcome.result["rows"][0]
    assert (
        row["a"] == 1
        and row["b"] == 2.5
        and row["c"] == "2020-01-02"
        and row["d"].startswith("2020-01-02T")
        and row["e"] == {"x": [1]}
    )
    assert row["f"] == [1, 2] and row["g"] == {"base64": "YWI="} and row["h"] is None and row["i"] is None and row["k"] == 10**20
    assert outcome.result["columns"] == list("abcdefghijk") and outcome.result["row_count"] == 1
    json.dumps(outcome.result, allow_nan=False)


@pytest.mark.usefixtures("people")
def test_parameters_are_bound_never_spliced(pg: Postgres) -> None:
    evil = "x'); DROP TABLE people; --"
    assert (
        pg("INSERT INTO people VALUES (%(id)s, %(name)s, %(info)s)", params={"id": 1, "name": evil, "info": {"a": [1]}}).result[
            "row_count"
        ]
        == 1
    )
    assert pg("INSERT INTO people VALUES (%s, %s, %s)", params=[2, "100%", [{"k": 1}]]).error is None
    assert pg("SELECT name, info FROM people ORDER BY id").result["rows"] == [
        {"name": evil, "info": {"a": [1]}},
        {"name": "100%", "info": [{"k": 1}]},
    ]
    assert pg("SELECT name LIKE '100%' AS l FROM people WHERE id = 2").result["rows"] == [{"l": True}]


@pytest.mark.usefixtures("people")
def test_a_task_is_one_transaction(pg: Postgres) -> None:
    outcome = pg(["INSERT INTO people VALUES (1, 'a')", "INSERT INTO people VALUES (1, 'b')"])
    assert kind(outcome) == "db_constraint"
    assert pg("SELECT count(*) AS n FROM people").result["rows"] == [{"n": 0}]


@pytest.mark.usefixtures("people")
def test_one_command_for_many_rows(pg: Postgres) -> None:
    rows = [{"id": n, "name": f"n{n}"} for n in range(500)]
    assert pg("INSERT INTO people (id, name) VALUES (%(id)s, %(name)s)", rows=rows).result["row_count"] == 500
    assert pg("SELECT count(*) AS n FROM people").result["rows"] == [{"n": 500}]


def test_several_statements_in_one_text_give_the_last_rows(pg: Postgres) -> None:
    assert pg("SELECT 1 AS a; SELECT 2 AS b").result["rows"] == [{"b": 2}]
    assert pg([{"command": "SELECT %s::int AS a", "params": [1]}, {"command": "SELECT %s::int AS b", "params": [5]}]).result[
        "rows"
    ] == [{"b": 5}]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("command", "params", "expected", "state"),
    [
        ("INSERT INTO people VALUES (1, NULL)", None, "db_constraint", "23502"),
        ("SELEC 1", None, "parse", "42601"),
        ("SELECT * FROM nowhere", None, "schema", "42P01"),
        ("SELECT 'x'::int", None, "schema", "22P02"),
        ("SELECT 1/0", None, "schema", "22012"),
        ("SELECT %(missing)s", {}, "schema", None),
        ("SELECT %s", ["a\x00b"], "schema", None),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$", None, "db_deadlock", "40001"),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END $$", None, "db_deadlock", "40P01"),
    ],
)
def test_errors_have_their_kinds_and_sqlstates(pg: Postgres, command: str, params: Any, expected: str, state: str | None) -> None:
    outcome = pg(command, params=params)
    assert kind(outcome) == expected
    assert outcome.helpers["pg"]["code"] == outcome.helpers["pg"]["sqlstate"] == state
    assert pg("SELECT 1 AS a").error is None


@pytest.mark.parametrize("command", ["SELECT :id", "SELECT 1 WHERE 'a' LIKE 'a%' AND 1 = %(id)s"])
def test_a_wrong_parameter_style_is_reported_with_the_right_one(pg: Postgres, command: str) -> None:
    error = pg(command, params={"id": 1}).error
    assert error is not None and "a parameter is written %(name)s" in error.message


def test_a_slow_statement_times_out_and_the_connection_lives(pg: Postgres) -> None:
    for limits in ({"spec": {"statement_timeout": 0.3}}, {"timeout_s": 0.3}):
        outcome = pg(["SELECT 1", FOR_EVER], **limits)
        assert kind(outcome) == "db_timeout" and outcome.error is not None and outcome.error.message.endswith(f" in: {FOR_EVER}")
    assert pg("SELECT 1 AS a").error is None


def test_a_cancelled_statement_is_stopped(pg: Postgres) -> None:
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    assert kind(pg(FOR_EVER, cancelled=cancelled)) == "cancelled"


def test_a_session_leaves_nothing_for_the_next_task(pg: Postgres) -> None:
    pg(["SET search_path = pg_catalog", "CREATE TEMP TABLE mine (a INT)", "SET SESSION statement_timeout = 5"])
    outcome = pg("SELECT current_setting('search_path') AS p, to_regclass('pg_temp.mine') AS t, pg_backend_pid() AS pid")
    assert outcome.result["rows"][0]["p"] != "pg_catalog" and outcome.result["rows"][0]["t"] is None
    assert (
        pg("SELECT pg_backend_pid() AS pid").result["rows"][0]["pid"] == outcome.result["rows"][0]["pid"]
    )  # the connection is kept


def test_a_connection_that_died_meanwhile_is_replaced(pg: Postgres) -> None:
    pid = pg("SELECT pg_backend_pid() AS pid").result["rows"][0]["pid"]
    assert kind(pg("SELECT pg_terminate_backend(%s)", params=[pid])) == "db_connection"
    assert pg("SELECT 1 AS a").result["rows"] == [{"a": 1}]


def test_the_task_run_id_is_at_hand(pg: Postgres) -> None:
    assert pg("SELECT current_setting('noetl.task_run_id') AS id").result["rows"] == [{"id": "run-1"}]


@pytest.mark.usefixtures("people")
def test_read_only_and_isolation(pg: Postgres) -> None:
    assert kind(pg("INSERT INTO people VALUES (1, 'a')", spec={"read_only": True})) == "client_error"
    assert pg("SHOW transaction_isolation", spec={"isolation": "serializable"}).result["rows"] == [
        {"transaction_isolation": "serializable"}
    ]
    assert pg("SHOW transaction_isolation").result["rows"] == [{"transaction_isolation": "read committed"}]
    assert kind(pg("SELECT 1", spec={"isolation": "chaos"})) == "schema"


def test_too_many_rows_are_a_limit(pg: Postgres) -> None:
    assert kind(pg("SELECT * FROM generate_series(1, 101)", spec={"max_rows": 100})) == "limit"


def test_auth_and_database_decide_the_connection_and_its_errors(pg: Postgres, uri: str) -> None:
    assert kind(pg("SELECT 1", auth={"host": "127.0.0.1", "port": 1, "user": "u", "password": "secret-pw"})) == "db_connection"
    assert pg("SELECT 1 AS a", auth=uri).result["rows"] == [{"a": 1}]
    assert pg("SELECT current_database() AS d", auth={"credential": "pg_test", "database": "template1"}).result["rows"] == [
        {"d": "template1"}
    ]
    assert kind(pg("SELECT 1", database="nowhere")) == "not_found"
    assert kind(pg("SELECT 1", auth="unknown")) == "not_found"
    assert kind(pg("SELECT 1", auth=None)) == "schema"


def test_megabytes_are_bound_as_parameters(pg: Postgres) -> None:
    rows = [{"n": n, "text": "ü" * 40} for n in range(40_000)]
    command = "SELECT jsonb_array_length(%(body)s::jsonb -> 'rows') AS n, length(%(text)s::text) AS l"
    outcome = pg(command, timeout_s=60, params={"body": {"rows": rows}, "text": "x" * 3_000_000})
    assert outcome.result["rows"] == [{"n": 40_000, "l": 3_000_000}]


# --- destinations -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Yield the parameters that libpq would receive. Names that end in `.test` resolve to fixed addresses."""
    connections: list[dict[str, Any]] = []

    def connect(**parameters: Any) -> Any:
        connections.append(parameters)
        raise psycopg.OperationalError("nobody there")

    known = {"db.test": ["93.184.215.14"], "inner.test": ["10.1.2.3"], "meta.test": ["93.184.215.14", "169.254.169.254"]}
    monkeypatch.setattr(psycopg, "connect", connect)
    resolve(monkeypatch, known.__getitem__)
    return connections


def reach(auth: Any, **policy: Any) -> Outcome:
    return invoke(PostgresTool(AddressPolicy(**policy)), ToolCall("postgres", {"command": "SELECT 1", "auth": auth}))


@pytest.mark.parametrize(
    "auth",
    [
        {"host": "169.254.169.254"},
        {"host": "meta.test"},
        {"host": "0.0.0.0"},
        {"host": "127.0.0.1"},
        {"host": "inner.test"},
        {"host": "db.test", "hostaddr": "10.1.2.3"},
        {"host": "db.test,inner.test"},
        {"host": "/var/run/postgresql"},
        {"dbname": "x"},
        "postgresql://me@127.0.0.1/x",
        "host=db.test hostaddr=169.254.169.254",
    ],
    ids=str,
)
def test_a_server_out_of_bounds_is_not_dialled(auth: Any, dialled: list[dict[str, Any]]) -> None:
    outcome = reach(auth)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("client_error", "address_refused")
    assert dialled == []


def test_remote_servers_are_dialled_with_tls_at_the_checked_address(dialled: list[dict[str, Any]]) -> None:
    reach({"host": "db.test", "user": "u", "password": "p"})
    reach({"host": "db.test", "sslmode": "verify-full", "sslrootcert": "system"})
    reach({"host": "inner.test", "sslmode": "disable"}, allow_private=True)
    reach("postgresql://u@db.test:6000,inner.test:6001/x", allow_private=True)
    told = [{k: d.get(k) for k in ("host", "hostaddr", "port", "sslmode")} for d in dialled]
    assert told == [
        {"host": "db.test", "hostaddr": "93.184.215.14", "port": "5432", "sslmode": "require"},
        {"host": "db.test", "hostaddr": "93.184.215.14", "port": "5432", "sslmode": "verify-full"},
        {"host": "inner.test", "hostaddr": "10.1.2.3", "port": "5432", "sslmode": "disable"},
        {"host": "db.test,inner.test", "hostaddr": "93.184.215.14,10.1.2.3", "port": "6000,6001", "sslmode": "require"},
    ]


def test_on_this_machine_tls_is_the_servers_choice(dialled: list[dict[str, Any]]) -> None:
    reach({"host": "127.0.0.1"}, allow_private=True)
    reach({"host": "/tmp"}, allow_private=True)
    assert [(d["host"], d["hostaddr"], d.get("sslmode")) for d in dialled] == [
        ("127.0.0.1", "127.0.0.1", None),
        ("/tmp", "", None),
    ]


# --- connections that are kept ------------------------------------------------------------------------------------------------


def backend(outcome: Outcome) -> int:
    assert outcome.error is None, outcome.error
    return int(outcome.result["rows"][0]["pid"])


PID = "SELECT pg_backend_pid() AS pid"


def test_an_idle_connection_holds_no_lock_and_no_table(pg: Postgres, uri: str) -> None:
    pid = backend(pg(["SELECT pg_advisory_lock(4711)", "CREATE TEMP TABLE mine (a INT)", "LISTEN news", PID]))
    with psycopg.connect(uri, autocommit=True) as other:
        assert other.execute("SELECT count(*) FROM pg_locks WHERE pid = %s", [pid]).fetchone() == (0,)
        assert other.execute("SELECT pg_try_advisory_lock(4711)").fetchone() == (True,)
    assert backend(pg(PID)) == pid


@pytest.mark.usefixtures("people")
def test_a_task_gets_only_connections_of_its_own_credential(pg: Postgres, uri: str) -> None:
    with psycopg.connect(uri, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS guest")
        owner.execute("CREATE ROLE guest LOGIN PASSWORD 'g'")
    fields = psycopg.conninfo.conninfo_to_dict(uri)
    assert pg(PID).error is None
    who = pg("SELECT current_user AS who", auth={**fields, "user": "guest", "password": "g"})
    assert who.result["rows"] == [{"who": "guest"}]
    assert pg("SELECT current_user AS who").result["rows"] != [{"who": "guest"}]


def test_connections_are_bounded_and_waited_for(uri: str) -> None:
    connections = Connections(AddressPolicy(allow_private=True), most_open=2)
    where = (("host", str(psycopg.conninfo.conninfo_to_dict(uri)["host"])), ("user", "postgres"), ("dbname", "postgres"))
    first, second = connections.take(where), connections.take(where)
    with pytest.raises(AllInUse):
        connections.take(where, timeout_s=0.05)
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(connections.take(where, timeout_s=30)))
    waiting.start()
    connections.give_back(where, first)
    waiting.join()
    assert got[0] is first
    for one in (first, second):
        connections.give_back(where, one)
    connections.close()
    assert first.closed and second.closed


def test_an_idle_connection_is_closed(uri: str) -> None:
    connections = Connections(AddressPolicy(allow_private=True), idle_s=0.0)
    where = (("host", str(psycopg.conninfo.conninfo_to_dict(uri)["host"])), ("user", "postgres"), ("dbname", "postgres"))
    connection = connections.take(where)
    connections.give_back(where, connection)
    for thread in threading.enumerate():
        if thread.name == "noetl-postgres":
            thread.join()
    assert connection.closed


def test_a_connection_that_cannot_be_made_frees_its_place() -> None:
    tool = PostgresTool(AddressPolicy(allow_private=True))
    call = ToolCall("postgres", {"command": "SELECT 1", "auth": {"host": "127.0.0.1", "port": 1}}, timeout_s=5)
    errors = [invoke(tool, call).error for _ in range(MAX_OPEN + 1)]
    assert {(error.kind, error.code) for error in errors if error is not None} == {("db_connection", None)}
