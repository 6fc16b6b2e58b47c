"""Aliases, weights, tags and deletion: which version starts, and what stays as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from noetl_core.control.admit import KeyReused, StartRequest, register
from noetl_core.control.catalog import versions
from noetl_core.control.catalog.versions import BadLabel, Deleted
from noetl_core.control.lifecycle.operate import signal
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.control.triggers.start import start_triggered
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.engine import ids
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.ports import NotFound
from noetl_core.runtime.local import LocalWiring
from noetl_core.views.executions import executions
from tests.unit.control.versions import PATH, text


@pytest.fixture
def local() -> Iterator[LocalWiring]:
    with closing(LocalWiring()) as local:
        for word in ("one", "two", "three"):
            register(local.control, text(word))
        yield local


def result(local: LocalWiring, request: StartRequest) -> Any:
    started = local.start(request)
    assert local.run(started.execution_id, timeout_s=30)
    return executions.summary(local.control, started.execution_id)["result"]


def test_an_alias_stands_for_a_version_until_it_is_moved(local: LocalWiring) -> None:
    versions.set_alias(local.control, PATH, "prod", {1: 1})
    assert result(local, StartRequest(path=PATH, version="prod")) == "one"
    versions.set_alias(local.control, PATH, "prod", {2: 1}, by="Ada")
    assert result(local, StartRequest(path=PATH, version="prod")) == "two"
    assert result(local, StartRequest(path=PATH)) == "three", "the latest is nobody's alias"
    about = local.control.catalog.about(PATH)
    assert [(change.by, change.what) for change in about.changes] == [
        ("Ada", "alias prod: 1 -> 2"),
        ("", "alias prod: none -> 1"),
    ]
    assert versions.set_alias(local.control, PATH, "prod", {2: 7}) == about, "the same again changes nothing"


def test_an_execution_started_by_an_alias_keeps_its_version(local: LocalWiring) -> None:
    waits = "tool: { kind: callback, signal: go }"
    for word in ("a", "b"):
        register(local.control, text(word, "etl/waits", waits) + f"# {word}\n")
    versions.set_alias(local.control, "etl/waits", "prod", {1: 1})
    started = local.start(StartRequest(path="etl/waits", version="prod"))
    versions.set_alias(local.control, "etl/waits", "prod", {2: 1})
    signal(local.control, started.execution_id, "go", {})
    assert local.run(started.execution_id, timeout_s=30)
    state = local.control.load(started.execution_id)
    assert (state.status, state.version) == ("completed", 1)
    assert redrive(local.control, started.execution_id, Redrive(From.parse("start"), {}, {}), preview=True).state.version == 1
    again = redrive(local.control, started.execution_id, Redrive(From.parse("start"), {}, {}), version="prod").state
    assert again.version == 2, "a redrive that names the alias goes by where it is now"


def test_weights_share_out_executions_and_each_keeps_its_version(local: LocalWiring) -> None:
    versions.set_alias(local.control, PATH, "prod", {1: 90, 3: 10})
    seen = Counter(versions.resolve(local.control, PATH, "prod", str(n)).version for n in range(2_000))
    assert set(seen) == {1, 3}
    assert 120 < seen[3] < 280
    request = StartRequest(path=PATH, version="prod", idempotency_key="once")
    first = local.start(request)
    versions.set_alias(local.control, PATH, "prod", {2: 1})
    again = local.start(request)
    assert (again.created, again.execution_id) == (False, first.execution_id)
    assert again.playbook == first.playbook, "what it is pinned to, not where the alias is now"
    with pytest.raises(KeyReused):
        local.start(StartRequest(path=PATH, version=1, idempotency_key="once"))


@pytest.mark.parametrize("weights", [{1: 1}, {1: 1, 2: 1}, {3: 0, 1: 1000}, {1: 1, 2: 2, 3: 997}])
def test_a_version_is_drawn_by_the_execution_alone(weights: dict[int, int]) -> None:
    drawn = [ids.drawn_version(weights, PATH, str(n)) for n in range(300)]
    assert drawn == [ids.drawn_version(dict(reversed(weights.items())), PATH, str(n)) for n in range(300)]
    assert {v for v, w in weights.items() if not w}.isdisjoint(drawn)


def test_a_version_of_weight_zero_has_no_share(local: LocalWiring) -> None:
    versions.set_alias(local.control, PATH, "prod", {1: 100, 2: 0})
    assert local.control.catalog.about(PATH).aliases == {"prod": {1: 1}}


def test_children_and_shared_tasks_are_named_by_alias_too(local: LocalWiring) -> None:
    calls = "tool: { kind: playbook, path: %s }"
    for word in ("prod", "2", "3"):
        register(local.control, text(word, f"etl/calls-{word}", calls % f"{PATH}@{word}"))
    versions.set_alias(local.control, PATH, "prod", {1: 1})
    assert [result(local, StartRequest(path=f"etl/calls-{word}")) for word in ("prod", "2", "3")] == ["one", "two", "three"]
    by_version = calls.replace("%s", f"{PATH}, version: prod")
    assert result(local, StartRequest(playbook=text("x", "etl/by-version", by_version))) == "one"
    both = text("x", "etl/both", calls.replace("%s", f"\"{{{{ '{PATH}@2' }}}}\", version: prod"))
    started = local.start(StartRequest(playbook=both))
    assert local.run(started.execution_id, timeout_s=30)
    error = executions.summary(local.control, started.execution_id)["error"]
    assert "names the version 2 and `version` prod" in error["message"]


def test_a_shared_task_is_pinned_from_where_the_alias_is(local: LocalWiring) -> None:
    for word in ("one", "two"):
        book = f"workbook: {{ say: {{ kind: noop, result: {word} }} }}\nworkflow:"
        register(local.control, text(word, "shared/say").replace("workflow:", book))
    user = text("x", "etl/user", "tool: { kind: workbook, task: say }").replace(
        "workflow:", 'workbook: { say: { uses: "shared/say@prod#say" } }\nworkflow:'
    )
    with pytest.raises(InvalidPlaybook, match="which was not found"):
        local.start(StartRequest(playbook=user))
    versions.set_alias(local.control, "shared/say", "prod", {1: 1})
    assert result(local, StartRequest(playbook=user)) == "one"
    versions.set_alias(local.control, "shared/say", "prod", {1: 1, 2: 1})
    with pytest.raises(InvalidPlaybook, match="which was not found"):
        local.start(StartRequest(playbook=user))


@pytest.mark.parametrize(
    ("name", "weights", "why"),
    [
        ("latest", {1: 1}, "cannot be an alias"),
        ("7", {1: 1}, "cannot be an alias"),
        ("a b", {1: 1}, "cannot be an alias"),
        ("a" * 65, {1: 1}, "cannot be an alias"),
        ("pröd", {1: 1}, "cannot be an alias"),
        ("prod", {}, "one to 5 versions"),
        ("prod", dict.fromkeys(range(1, 7), 1), "one to 5 versions"),
        ("prod", {1: -1}, "weight of version 1 is -1"),
        ("prod", {1: 1001}, "weight of version 1 is 1001"),
        ("prod", {1: 0}, "all weights are 0"),
    ],
)
def test_invalid_aliases_and_weights_are_refused(local: LocalWiring, name: str, weights: dict[int, int], why: str) -> None:
    with pytest.raises(BadLabel, match=why):
        versions.set_alias(local.control, PATH, name, weights)
    assert local.control.catalog.about(PATH).revision == 0


def test_an_unknown_alias_is_refused_with_the_nearest_name(local: LocalWiring) -> None:
    with pytest.raises(NotFound, match=r"no alias 'prod'.*it has no alias"):
        local.start(StartRequest(path=PATH, version="prod"))
    versions.set_alias(local.control, PATH, "prod", {1: 1})
    with pytest.raises(NotFound, match="did you mean"):
        local.start(StartRequest(path=PATH, version="pord"))
    for wrong in ({9: 1}, {1: 1, 9: 1}):
        with pytest.raises(NotFound, match="version 9"):
            versions.set_alias(local.control, PATH, "prod", wrong)
    with pytest.raises(NotFound, match="no playbook"):
        versions.set_alias(local.control, "etl/none", "prod", {1: 1})
    versions.set_alias(local.control, PATH, "prod", None)
    with pytest.raises(NotFound):
        versions.set_alias(local.control, PATH, "prod", None)


def test_tags(local: LocalWiring) -> None:
    assert versions.set_tags(local.control, PATH, ["nightly", "team:data", "nightly"], []).tags == ("nightly", "team:data")
    assert versions.set_tags(local.control, PATH, ["x"], ["nightly", "never"]).tags == ("team:data", "x")
    with pytest.raises(BadLabel, match="cannot be a tag"):
        versions.set_tags(local.control, PATH, ["a b"], [])
    with pytest.raises(BadLabel, match="it may have 20"):
        versions.set_tags(local.control, PATH, [f"t{n}" for n in range(19)], [])


def test_a_deleted_playbook_starts_nothing_new_and_running_executions_continue(local: LocalWiring) -> None:
    waits = text("x", "etl/waits", "tool: { kind: callback, signal: go }")
    version = register(local.control, waits)[1]
    caller = register(local.control, text("x", "etl/caller", "tool: { kind: playbook, path: etl/waits }"))[1]
    kept = StartRequest(path="etl/waits", idempotency_key="kept")
    running = local.start(kept)
    versions.set_alias(local.control, "etl/waits", "prod", {1: 1})
    versions.delete(local.control, "etl/waits", by="Ada")
    for request in (
        StartRequest(path="etl/waits"),
        StartRequest(path="etl/waits", version=1),
        StartRequest(path="etl/waits", version="prod"),
        StartRequest(digest=version.digest),
        StartRequest(playbook=waits),
    ):
        with pytest.raises(Deleted, match=r"was deleted at .*`noetl playbooks undelete etl/waits`"):
            local.start(request)
    with pytest.raises(Deleted):
        register(local.control, waits + "# newer")
    assert local.start(kept).execution_id == running.execution_id, "the same request again is no new start"
    calling = local.start(StartRequest(path=caller.path))
    assert local.run(calling.execution_id, timeout_s=30)
    error = executions.summary(local.control, calling.execution_id)["error"]
    assert (error["kind"], "was deleted at" in error["message"]) == ("not_found", True)
    signal(local.control, running.execution_id, "go", {})
    assert local.run(running.execution_id, timeout_s=30)
    assert local.control.load(running.execution_id).status == "completed"
    versions.undelete(local.control, "etl/waits")
    assert local.start(StartRequest(path="etl/waits", version="prod")).created
    whats = [change.what for change in local.control.catalog.about("etl/waits").changes]
    assert whats == ["undeleted", "deleted", "alias prod: none -> 1"]


def test_triggers_of_a_deleted_playbook_skip(local: LocalWiring) -> None:
    triggered = text("x", "etl/hourly").replace(
        "workflow:", 'executor: { spec: { triggers: [{ schedule: "0 * * * *" }] } }\nworkflow:'
    )
    register(local.control, triggered)
    (record,) = local.control.triggers.triggers("etl/hourly")
    versions.delete(local.control, "etl/hourly")
    skipped = start_triggered(local.control, record, "2026-03-28T12:00:00Z", 1, {})
    assert (skipped.result, "was deleted at" in skipped.reason) == ("skipped", True)
    assert list(local.control.triggers.list_refused(0, 10)) == []
    versions.undelete(local.control, "etl/hourly")
    assert start_triggered(local.control, record, "2026-03-28T13:00:00Z", 1, {}).result == "started"


def test_a_text_that_is_only_pinned_is_no_playbook_of_the_catalog(local: LocalWiring) -> None:
    versions.delete(local.control, PATH)
    assert local.start(StartRequest(playbook=text("mine"), registers=False)).playbook.version == 0


def test_only_the_last_fifty_changes_are_kept(local: LocalWiring) -> None:
    for n in range(60):
        versions.set_alias(local.control, PATH, "prod", {n % 2 + 1: 1})
    about = local.control.catalog.about(PATH)
    assert (len(about.changes), about.revision) == (50, 60)
