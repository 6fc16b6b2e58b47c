"""A simple chain reads as a person would write it; ways that meet store the document."""

from __future__ import annotations

import json
from typing import Any

import yaml

from noetl_import import import_asl

FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:"
CHAIN = {
    "Comment": "Orders",
    "StartAt": "GetUser",
    "States": {
        "GetUser": {"Type": "Task", "Resource": f"{FUNCTION}user", "ResultPath": "$.user", "Next": "Charge card"},
        "Charge card": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": "charge", "Payload": {"name.$": "$.user.name", "amount.$": "$.amount"}},
            "OutputPath": "$.Payload",
            "End": True,
        },
    },
}
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: orders
  path: imported/orders
  description: Orders
executor:
  spec:
    strict: true
    result: "{{ steps.charge_card.result.payload }}"
workflow:
  - step: get_user
    tool:
      kind: lambda
      function: arn:aws:lambda:us-east-1:123456789012:function:user
      payload: "{{ workload }}"
    next: {arcs: [{step: charge_card}]}
  - step: charge_card
    tool:
      kind: lambda
      function: charge
      payload:
        name: "{{ steps.get_user.result.payload.name }}"
        amount: "{{ workload.amount }}"
"""


def steps(definition: dict[str, Any]) -> dict[str, Any]:
    (text,) = import_asl(json.dumps(definition), "orders").playbooks.values()
    return {step["step"]: step for step in yaml.safe_load(text)["workflow"]}


def test_a_chain_reads_as_one_that_a_person_writes() -> None:
    found = import_asl(json.dumps(CHAIN), "orders")
    assert (dict(found.playbooks), found.findings) == ({"imported/orders": PLAYBOOK}, ())


def test_a_definition_in_yaml_is_the_same() -> None:
    assert dict(import_asl(yaml.safe_dump(CHAIN, sort_keys=False), "orders").playbooks) == {"imported/orders": PLAYBOOK}


def test_ways_with_equal_documents_store_nothing() -> None:
    rule = {"Variable": "$.n", "NumericEquals": 1, "Next": "Wait"}
    states = {
        "Ask": {"Type": "Choice", "Choices": [rule], "Default": "End"},
        "Wait": {"Type": "Wait", "Seconds": 1, "Next": "End"},
        "End": {"Type": "Succeed"},
    }
    found = steps({"StartAt": "Ask", "States": states})
    assert found["end"]["tool"]["result"] == "{{ workload }}"
    assert not any("set_ctx" in arc for step in found.values() for arc in step.get("next", {}).get("arcs", ()))


def test_ways_with_different_documents_store_them() -> None:
    rule = {"Variable": "$.n", "NumericEquals": 1, "Next": "Set"}
    states = {
        "Ask": {"Type": "Choice", "Choices": [rule], "Default": "End"},
        "Set": {"Type": "Pass", "Result": 5, "ResultPath": "$.m", "Next": "End"},
        "End": {"Type": "Succeed"},
    }
    found = steps({"StartAt": "Ask", "States": states})
    assert found["ask"]["next"]["arcs"][1] == {"step": "end", "set_ctx": {"data": "{{ workload }}"}}
    assert found["set"]["next"]["arcs"] == [{"step": "end", "set_ctx": {"data": "{{ dict(workload, m=5) }}"}}]
    assert found["end"]["tool"]["result"] == "{{ ctx.data }}"


def test_names_are_unique_and_not_those_of_the_language() -> None:
    states = {
        "ctx": {"Type": "Pass", "Next": "A-b"},
        "A-b": {"Type": "Pass", "Next": "a b"},
        "a b": {"Type": "Pass", "Next": "1st"},
        "1st": {"Type": "Succeed"},
    }
    found = steps({"StartAt": "ctx", "States": states})
    assert [(name, step.get("desc")) for name, step in found.items()] == [
        ("state_ctx", "ctx"), ("a_b", None), ("a_b_2", "a b"), ("state_1st", "1st"),
    ]  # fmt: skip


def test_a_placeholder_takes_its_value() -> None:
    definition = {"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "${Fn}", "End": True}}}
    found = import_asl(json.dumps(definition), "a", "team/a", {"Fn": f"{FUNCTION}f"})
    assert (list(found.playbooks), found.findings) == (["team/a"], ())
    assert f"function: {FUNCTION}f" in found.playbooks["team/a"]


def test_a_state_machine_that_is_started_has_a_path_beside() -> None:
    state = {
        "Type": "Task",
        "Resource": "arn:aws:states:::states:startExecution",
        "Parameters": {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:Send-mail", "Name": "n"},
        "End": True,
    }
    (text,) = import_asl(json.dumps({"StartAt": "A", "States": {"A": state}}), "a", "team/a").playbooks.values()
    assert yaml.safe_load(text)["workflow"][0]["tool"] == {
        "kind": "playbook", "path": "team/Send_mail", "payload": {}, "idempotency_key": "n", "detach": True,
    }  # fmt: skip
