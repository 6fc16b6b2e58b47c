"""`kind: snowflake` on a fake of Snowflake, and what it makes of Snowflake's errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import snowflake.connector
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from snowflake.connector import errors as of

from noetl_core.ports import NotFound
from noetl_snowflake import errors
from tests.snowflakes import faked
from tests.unit.docs.language import Example, examples
from tests.unit.tools.aws_playbooks import Ran

from .conftest import Run, kind, message

LOGIN = {"account": "myorg-account", "user": "me", "password": "S3cret-Pass", "database": "db", "schema": "public"}
PAGE = Path(__file__).parents[3] / "docs/tools/snowflake.md"
EXAMPLES = [example for example in examples(PAGE) if example.kind == "json"]


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    with faked():
        yield


@pytest.fixture
def sql(run: Run) -> Any:
    """`sql(command, **inputs)`: the result of a task."""

    def sql(command: Any, **inputs: Any) -> Any:
        spec = inputs.pop("spec", {})
        outcome = run("snowflake", {"auth": LOGIN, "command": command, **inputs}, spec=spec)
        assert outcome.error is None, outcome.error
        return outcome.result

    return sql


# --- statements ---------------------------------------------------------------------------------------------------------


def test_rows_have_the_types_of_json(sql: Any) -> None:
    found = sql("SELECT 1 AS n, 1.50::number(10, 2) AS d, 'ä' AS t, '2020-01-31'::date AS day, true AS b, null AS nothing")
    assert found == {
        "rows": [{"N": 1, "D": 1.5, "T": "ä", "DAY": "2020-01-31", "B": True, "NOTHING": None}],
        "columns": ["N", "D", "T", "DAY", "B", "NOTHING"],
        "row_count": 1,
    }


def test_semi_structured_columns_are_values(sql: Any) -> None:
    sql("CREATE OR REPLACE TABLE v (v VARIANT)")
    sql("INSERT INTO v SELECT PARSE_JSON(%(v)s)", params={"v": {"a": [1, {"b": None}]}})
    assert sql("SELECT v FROM v")["rows"] == [{"V": {"a": [1, {"b": None}]}}]


@pytest.mark.parametrize("value", ["x'; DROP TABLE v; --", "%s %(a)s", "\\", "ä\n", "'" * 5])
def test_a_parameter_is_never_part_of_the_statement(sql: Any, value: str) -> None:
    assert sql("SELECT %(v)s AS v", params={"v": value})["rows"] == [{"V": value}]


def test_statements_that_change_rows_return_their_row_count(sql: Any) -> None:
    assert sql("CREATE OR REPLACE TABLE t (id INT, name VARCHAR)") == {"rows": [], "columns": [], "row_count": 0}
    assert sql("INSERT INTO t (id, name) VALUES (%s, %s)", rows=[[1, "a"], [2, "b"], [3, None]])["row_count"] >= 1
    assert sql("UPDATE t SET name = 'q' WHERE id > 1")["row_count"] == 2
    assert sql("SELECT id, name FROM t ORDER BY id")["rows"] == [
        {"ID": 1, "NAME": "a"},
        {"ID": 2, "NAME": "q"},
        {"ID": 3, "NAME": "q"},
    ]
    assert sql("SELECT count(*) AS n FROM t WHERE id IN (%s)", params=[[1, 2]])["rows"] == [{"N": 2}]


def test_each_statement_returns_the_result_of_every_command(sql: Any) -> None:
    found = sql(["SELECT 1 AS a", "SELECT 2 AS b", "CREATE OR REPLACE TABLE e (n INT)"], spec={"each_statement": True})
    assert found["rows"] == [{"B": 2}] and found["commands"][0]["rows"] == [{"A": 1}] and found["commands"][1] is None


def test_a_task_is_one_transaction(sql: Any, run: Run) -> None:
    sql("CREATE OR REPLACE TABLE tx (id INT)")
    failed = run("snowflake", {"auth": LOGIN, "command": ["INSERT INTO tx VALUES (1)", "SELECT nothing FROM nowhere"]})
    assert kind(failed) == "not_found"
    assert sql("SELECT count(*) AS n FROM tx")["rows"] == [{"N": 0}]


def test_a_cancelled_task_commits_nothing(sql: Any, run: Run) -> None:
    import threading

    sql("CREATE OR REPLACE TABLE gone (id INT)")
    over = threading.Event()
    over.set()
    assert kind(run("snowflake", {"auth": LOGIN, "command": "INSERT INTO gone VALUES (1)"}, cancelled=over)) == "cancelled"
    assert sql("SELECT count(*) AS n FROM gone")["rows"] == [{"N": 0}]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The parameters of a connection, which is refused."""
    parameters: dict[str, Any] = {}

    def connect(**options: Any) -> Any:
        parameters.update(options)
        raise of.OperationalError(msg="enough", errno=250001)

    monkeypatch.setattr(snowflake.connector, "connect", connect)
    return parameters


def test_the_session_is_the_task_runs(asked: dict[str, Any], run: Run) -> None:
    run("snowflake", {"auth": LOGIN, "command": "SELECT 1", "warehouse": "big"}, timeout_s=90.0)
    assert asked["session_parameters"]["QUERY_TAG"] == "noetl run-1"
    assert asked["session_parameters"]["STATEMENT_TIMEOUT_IN_SECONDS"] == 90
    assert (asked["autocommit"], asked["warehouse"], asked["account"]) == (False, "big", "myorg-account")


# --- large results ------------------------------------------------------------------------------------------------------


def test_rows_go_to_a_file_of_the_execution(sql: Any, store: Any) -> None:
    made = sql("SELECT seq4() AS n, 'a,\"b' AS t FROM TABLE(GENERATOR(ROWCOUNT => 4500))", to="csv")
    lines = store.get(made["key"]).decode().splitlines()
    assert (made["rows"], made["format"], len(lines), lines[:2]) == (4500, "csv", 4501, ["N,T", '0,"a,""b"'])
    again = sql("SELECT 1 AS n", to="jsonl")
    assert [json.loads(line) for line in store.get(again["key"]).decode().splitlines()] == [{"N": 1}]


def test_too_many_rows_are_an_error(run: Run) -> None:
    many = {"auth": LOGIN, "command": "SELECT seq4() AS n FROM TABLE(GENERATOR(ROWCOUNT => 11))"}
    failed = run("snowflake", many, spec={"max_rows": 10})
    assert kind(failed) == "limit" and "more than 10 rows" in message(failed)


# --- connections --------------------------------------------------------------------------------------------------------


def _pem(passphrase: bytes) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase)).decode()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ({"password": "p"}, {"password": "p"}),
        ({"token": "t"}, {"token": "t", "authenticator": "oauth", "user": "me"}),
        (
            {"token": "t", "authenticator": "programmatic_access_token"},
            {"token": "t", "authenticator": "PROGRAMMATIC_ACCESS_TOKEN"},
        ),
        ({"private_key": _pem(b"x"), "private_key_passphrase": "x"}, {"private_key": bytes}),
    ],
    ids=["password", "oauth", "token", "key"],
)
def test_each_login_method_passes_its_fields_to_the_connection(
    auth: dict[str, Any], expected: dict[str, Any], run: Run, asked: dict[str, Any]
) -> None:
    run("snowflake", {"auth": {"account": "a-b.eu-central-1", "user": "me", **auth}, "command": "SELECT 1"})
    for name, value in expected.items():
        assert isinstance(asked[name], value) if isinstance(value, type) else asked[name] == value


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("auth", "told"),
    [
        ({**LOGIN, "account": "evil.example.org/"}, "`account`"),
        ({**LOGIN, "account": "a@b"}, "`account`"),
        ({**LOGIN, "host": "10.0.0.1"}, "an unknown field `host`"),
        ({**LOGIN, "protocol": "http"}, "an unknown field `protocol`"),
        ({**LOGIN, "authenticator": "https://idp.example.org"}, "`authenticator`"),
        ({**LOGIN, "authenticator": "externalbrowser"}, "`authenticator`"),
        ({**LOGIN, "token": "t"}, "one of `password`"),
        ({"account": "a", "user": "u"}, "one of `password`"),
        ({"account": "a", "password": "u"}, "`user`"),
        ({"account": "a", "user": "u", "private_key": "PEM-secret-text"}, "`private_key` must be"),
        (5, "`auth`"),
    ],
)
def test_an_invalid_login_is_refused_before_any_connection(auth: Any, told: str, run: Run) -> None:
    failed = run("snowflake", {"auth": auth, "command": "SELECT 1"})
    assert kind(failed) == "schema" and told in message(failed)
    assert "PEM-secret-text" not in message(failed)


def test_a_credential_is_read_by_its_name(run: Run) -> None:
    def secrets(name: str) -> Any:
        if name != "warehouse":
            raise NotFound(name)
        return {"type": "snowflake", "data": LOGIN}

    assert run("snowflake", {"auth": "warehouse", "command": "SELECT 1 AS n"}, secrets=secrets).result["rows"] == [{"N": 1}]
    assert kind(run("snowflake", {"auth": "other", "command": "SELECT 1"}, secrets=secrets)) == "not_found"


# --- errors -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "expected"),
    [("SELEC 1", "parse"), ("SELECT * FROM nowhere", "not_found"), ("SELECT 'a'::int", "schema")],
)
def test_a_statement_that_fails_has_its_kind(command: str, expected: str, run: Run) -> None:
    failed = run("snowflake", {"auth": LOGIN, "command": command})
    assert kind(failed) == expected, failed.error
    assert failed.error is not None and failed.error.retryable is False


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("error", "expected", "retryable"),
    [
        (of.DatabaseError(msg="Incorrect username or password was specified.", errno=250001, sqlstate="08001"), "auth", False),
        (of.ForbiddenError(msg="Verify the account name is correct", errno=250001, sqlstate="08001"), "auth", False),
        (of.OperationalError(msg="Could not connect to Snowflake backend", errno=250001), "db_connection", True),
        (of.ProgrammingError(msg="Role 'X' does not exist", errno=390189, sqlstate="08004"), "auth", False),
        (of.ServiceUnavailableError(msg="503", errno=253003), "server_error", True),
        (of.TooManyRequests(msg="429", errno=253009), "rate_limit", True),
    ],
)
def test_a_connection_that_is_not_made_says_whether_to_try_again(error: of.Error, expected: str, retryable: bool) -> None:
    outcome = errors.refused(error)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable, outcome.error.code) == (expected, retryable, error.errno)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("number", "state", "expected", "retryable"),
    [
        (604, "57014", "db_timeout", True),
        (630, "57014", "db_timeout", True),
        (625, "57014", "db_deadlock", True),
        (390112, "08001", "db_connection", True),
        (3001, "42501", "auth", False),
        (904, "42000", "schema", False),
        (100038, "22018", "schema", False),
        (100072, "22000", "db_constraint", False),
        (200001, "22000", "db_constraint", False),
    ],
)
def test_snowflakes_numbers_are_kinds_of_errors(number: int, state: str, expected: str, retryable: bool) -> None:
    outcome = errors.failed(of.ProgrammingError(msg="no", errno=number, sqlstate=state, sfqid="q-1"))
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == (expected, retryable)
    assert outcome.error.details == {"sqlstate": state, "query_id": "q-1"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"command": ""}, "`command`"),
        ({"command": "SELECT 1", "to": "parquet"}, "`to` 'parquet' is unknown"),
        ({"command": ["SELECT 1", "SELECT 2"], "rows": [[1]]}, "`rows`"),
        ({"command": "CREATE OR REPLACE TABLE x (n INT)", "to": "csv"}, "which gives none"),
        ({"command": "SELECT 1", "database": 5}, "`database`"),
    ],
)
def test_invalid_inputs_are_refused_with_the_reason(inputs: dict[str, Any], told: str, run: Run) -> None:
    failed = run("snowflake", {"auth": LOGIN, **inputs})
    assert kind(failed) == "schema" and told in message(failed)


# --- as playbooks -------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_examples_of_the_page_give_the_documented_results(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.setenv("NOETL_CREDENTIAL_WAREHOUSE", json.dumps(LOGIN))
    tasks = yaml.safe_load(example.source)["workflow"][0]["tool"]
    assert {"status": "completed", "result": Ran(*tasks).result} == json.loads(example.expected)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 3


def test_a_password_is_in_no_answer(run: Run) -> None:
    found = run("snowflake", {"auth": "w", "command": "SELECT 'S3cret-Pass' AS p"}, secrets=lambda _: LOGIN)
    assert found.result["rows"] == [{"P": "***"}]
