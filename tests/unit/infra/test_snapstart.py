"""SnapStart is a parameter: with it functions are called by an alias, whose version is one with a snapshot; without it nothing of that
exists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from noetl_core.adapters.clock import SystemClock
from noetl_core.runtime import worker_wiring
from tests.unit.infra.translated import deployed, of_type, source

ON = {"SnapStart": "2026-11-22T08", "PythonPool": "yes", "Asks": "yes"}
STARTED = {
    "AdmitFunction",
    "CredentialsFunction",
    "HooksFunction",
    "RouterFunction",
    "AskFunction",
    "WorkerFunction",
    "PythonWorkerFunction",
}


def callers(**parameters: str) -> dict[str, str]:
    """Return the callers of functions -> the called function, except for the sweeper's schedule."""
    found = {
        name: str(properties["FunctionName"])
        for kind in ("AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission")
        for name, properties in of_type(kind, **parameters).items()
    }
    (api,) = of_type("AWS::ApiGateway::RestApi", **parameters).values()
    for path, methods in api["Body"]["paths"].items():
        for method, operation in methods.items():
            if "x-amazon-apigateway-integration" in operation:
                uri = operation["x-amazon-apigateway-integration"]["uri"]
                found[f"{method} {path}"] = uri.rpartition("/functions/")[2].removesuffix("/invocations")
    return {caller: called for caller, called in found.items() if not caller.startswith("SweeperFunction")}


def test_without_snapstart_functions_are_called_by_their_own_name() -> None:
    functions = of_type("AWS::Lambda::Function", PythonPool="yes")
    assert not of_type("AWS::Lambda::Version", PythonPool="yes") and not of_type("AWS::Lambda::Alias", PythonPool="yes")
    assert [name for name, f in functions.items() if "SnapStart" in f or "DEPLOYMENT" in f["Environment"]["Variables"]] == []
    assert [c for c in callers(PythonPool="yes").values() if "Live" in c] == []


def test_with_snapstart_every_caller_of_a_function_calls_its_alias() -> None:
    functions = of_type("AWS::Lambda::Function", **ON)
    assert {name for name, f in functions.items() if f.get("SnapStart") == {"ApplyOn": "PublishedVersions"}} == STARTED
    called = callers(**ON)
    assert len(called) > 20
    assert set(called.values()) == {"${" + f"{name}Live" + "}" for name in STARTED - {"AskFunction"}}


def test_with_snapstart_workers_call_the_alias_of_the_ask_function(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(worker_wiring, "LambdaAsks", asked.append)
    for parameters in ({"Asks": "yes"}, {**ON, "Asks": "yes"}, {}):
        variables = of_type("AWS::Lambda::Function", **parameters)["WorkerFunction"]["Environment"]["Variables"]
        for name in ("ASK_FUNCTION", "DEPLOYMENT"):
            monkeypatch.setenv(name, str(variables.get(name, "")))
        asker = worker_wiring.asker_of(SystemClock())
        assert (asker is None) == (not parameters)
    assert asked == ["${AskFunction}", "${AskFunction}:live"]


def test_an_alias_is_of_the_version_that_has_the_snapshot_of_its_function() -> None:
    versions, aliases = of_type("AWS::Lambda::Version", **ON), of_type("AWS::Lambda::Alias", **ON)
    assert {name.removesuffix("Live") for name in aliases} == STARTED
    for name, alias in aliases.items():
        function = name.removesuffix("Live")
        assert alias == {
            "FunctionName": "${" + function + "}",
            "FunctionVersion": "${" + function + "Snapshot.Version}",
            "Name": "live",
        }
        assert versions[f"{function}Snapshot"]["FunctionName"] == alias["FunctionName"]


def test_another_snapstart_word_makes_new_versions_of_changed_functions() -> None:
    """Lambda publishes no version of an unchanged function, and CloudFormation none with unchanged properties."""

    def made(word: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        parameters = {**ON, "SnapStart": word}
        functions = of_type("AWS::Lambda::Function", **parameters)
        return of_type("AWS::Lambda::Version", **parameters), {name: functions[name] for name in STARTED}

    (versions, functions), (others, changed) = made("one"), made("two")
    assert [name for name in versions if versions[name] == others[name]] == []
    assert [name for name in functions if functions[name] == changed[name]] == []
    assert {v["Description"] for v in versions.values()} == {"one ${" + _layer() + "}"}, (
        "another layer makes another version, too"
    )


def _layer() -> str:
    (name,) = of_type("AWS::Lambda::LayerVersion", **ON)
    return name


def test_versions_without_the_python_pool_are_of_functions_that_exist() -> None:
    assert "PythonWorkerFunctionSnapshot" not in deployed(SnapStart="one")
    assert "PythonWorkerFunction" not in json.dumps(deployed(SnapStart="one"))


@pytest.mark.parametrize(("parameter", "refused"), [("LambdaRuntime", "python3.11"), ("WorkerStorage", "513")])
def test_parameters_that_lambda_cannot_snapshot_are_refused_by_the_template(parameter: str, refused: str) -> None:
    rule = source()["Rules"]["SnapshotsAreNotForAll"]
    assert rule["RuleCondition"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "SnapStart"}, ""]}]}
    assertions = {json.dumps(a["Assert"]): a["AssertDescription"] for a in rule["Assertions"]}
    (mine,) = [a for a in assertions if parameter in a]
    wanted = json.loads(mine)
    refuses = refused == wanted["Fn::Not"][0]["Fn::Equals"][1] if "Fn::Not" in wanted else refused != wanted["Fn::Equals"][1]
    assert refuses
