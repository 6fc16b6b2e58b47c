"""`kind: kv` as playbooks use it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.kv import KvTool
from noetl_core.tools.registry import ToolRegistry
from tests.unit.tools.aws_playbooks import Ran

GO_ON = {"policy": {"rules": [{"else": {"then": {"do": "continue"}}}]}}


def put(key: str = "k", value: Any = 1, **more: Any) -> dict[str, Any]:
    return {"kind": "kv", "action": "put", "key": key, "value": value, **more}


@pytest.mark.parametrize("value", [None, 0, "", "ü", [], {"a": [None, 1.5]}, False])
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    result = Ran(put(value=value), {"kind": "kv", "key": "k"}).result
    assert (result["found"], result["value"]) == (True, value)


def test_a_value_outlives_its_execution(tmp_path: Path) -> None:
    local = LocalWiring(tmp_path / "runs.db")
    Ran(put(value="kept"), local=local)
    local.close()
    again = LocalWiring(tmp_path / "runs.db")
    assert Ran({"kind": "kv", "key": "k"}, local=again).result["value"] == "kept"
    again.close()


def test_a_value_lasts_as_long_as_its_author_says() -> None:
    now = 1_800_000_000
    local = LocalWiring(tools=ToolRegistry({"kv": KvTool(lambda: now)}))
    assert Ran(put(ttl="15m"), local=local).result["expires_at"] == 1_800_000_900
    assert Ran({"kind": "kv", "key": "k"}, local=local).result["found"]
    now += 900
    assert Ran({"kind": "kv", "key": "k", "default": 5}, local=local).result == {
        "bucket": "default",
        "key": "k",
        "found": False,
        "value": 5,
        "revision": "",
    }
    assert Ran(put(if_absent=True), local=local).result["key"] == "k"
    local.close()


def test_a_conflict_names_the_revision_that_is_there() -> None:
    local = LocalWiring()
    first = Ran(put(), local=local).result["revision"]
    error = Ran(put(if_absent=True), local=local).error
    assert (error["kind"], error["code"], error["retryable"], error["details"]) == (
        "client_error",
        "OtherRevision",
        False,
        {"revision": first},
    )
    assert Ran({"kind": "kv", "action": "delete", "key": "k", "if_revision": "x"}, local=local).error["details"] == {
        "revision": first
    }
    assert Ran(put(if_revision=first), local=local).result["revision"] != first
    assert Ran(put(if_revision=""), local=local).error["code"] == "OtherRevision"
    local.close()


def test_a_task_that_is_repeated_writes_once() -> None:
    local = LocalWiring()
    call = ToolCall(
        "kv",
        {"action": "put", "key": "k", "value": 1, "if_absent": True},
        task_run_id="run",
        key_values=local.worker.tools.key_values,
    )
    outcomes = [invoke(KvTool(), call) for _ in range(3)]
    assert [o.status for o in outcomes] == ["ok"] * 3
    assert len({o.result["revision"] for o in outcomes}) == 1
    local.close()


def test_concurrent_increments_by_compare_and_set_are_all_counted(tmp_path: Path) -> None:
    """Each reads, adds one, and begins again if another was first."""
    local = LocalWiring(tmp_path / "runs.db")

    def count(n: int) -> None:
        store = local.worker.tools.key_values
        for attempt in range(1000):
            got = invoke(KvTool(), ToolCall("kv", {"key": "n", "default": 0}, key_values=store)).result
            inputs = {"action": "put", "key": "n", "value": got["value"] + 1, "if_revision": got["revision"]}
            if invoke(KvTool(), ToolCall("kv", inputs, task_run_id=f"{n}/{attempt}", key_values=store)).status == "ok":
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(24)))
    assert Ran({"kind": "kv", "key": "n"}, local=local).result["value"] == 24
    local.close()


@pytest.mark.parametrize(
    ("task", "kind", "told"),
    [
        ({"key": "x" * 513}, "schema", "`key` must be text of 1 to 512 bytes"),
        ({"bucket": "a/b", "key": "k"}, "schema", "`bucket`"),
        ({"bucket": "a#b", "key": "k"}, "schema", "`bucket`"),
        ({"action": "put", "key": "k", "value": 1, "if_absent": "{{ 'yes' }}"}, "schema", "`if_absent` must be true or false"),
        ({"action": "put", "key": "k", "value": 1, "ttl": "{{ 0 }}"}, "schema", "`ttl`"),
        ({"action": "{{ 'keys' }}", "key": "k"}, "schema", "`action` is one of get, put, delete, list, not 'keys'"),
    ],
)
def test_invalid_inputs_fail_with_the_reason(task: dict[str, Any], kind: str, told: str) -> None:
    error = Ran({"kind": "kv", **task}).error
    assert error["kind"] == kind and told in error["message"]


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", ["\ud800", float("inf"), [[]] * 3 + [{"a": {1, 2}}], nested(200)], ids=["half", "inf", "set", "deep"]
)
def test_a_value_that_could_not_be_read_back_is_refused(value: Any) -> None:
    local = LocalWiring()
    call = ToolCall("kv", {"action": "put", "key": "k", "value": value}, key_values=local.worker.tools.key_values)
    refused = invoke(KvTool(), call).as_dict()["error"]
    local.close()
    assert (refused["kind"], refused["retryable"]) == ("schema", False)


def test_a_key_is_text_that_can_be_stored() -> None:
    local = LocalWiring()
    refused = invoke(KvTool(), ToolCall("kv", {"key": "a\ud800"}, key_values=local.worker.tools.key_values)).as_dict()["error"]
    local.close()
    assert (refused["kind"], refused["retryable"]) == ("schema", False)


def test_secrets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_CREDENTIAL_API", '{"token": "S3cret-Value"}')
    error = Ran({"kind": "secrets", "secret": "api", "field": "token"}, put(value="{{ t0 }}")).error
    assert "refuses secrets" in error["message"]


def test_a_pool_without_key_values_gets_an_auth_error() -> None:
    refused = invoke(KvTool(), ToolCall("kv", {"key": "k"})).as_dict()["error"]
    assert (refused["kind"], refused["retryable"]) == ("auth", False)
