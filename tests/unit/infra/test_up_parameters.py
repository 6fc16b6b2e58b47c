"""Parameters that `noetl up --set` takes: checked against the template before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_infra.deploy import WrongParameter, check_parameters, write_numbers


@pytest.mark.parametrize(
    "parameters",
    [{}, {"ToolBuckets": "reports,raw-*"}, {"WorkerTimeout": "60", "ApiAuth": "JWT"}, {"ToolBuckets": "", "WorkerReserved": "0"}],
)
def test_parameters_that_the_template_accepts_pass(parameters: dict[str, str]) -> None:
    check_parameters(parameters)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"ToolBucket": "reports"}, "the stack has no parameter ToolBucket (did you mean ToolBuckets?)"),
        ({"ToolBuckets": "Reports"}, "ToolBuckets does not take 'Reports': Buckets that tools may"),
        ({"ApiAuth": "none"}, "ApiAuth is one of IAM, JWT, NONE, not 'none'"),
        ({"WorkerTimeout": "5"}, "WorkerTimeout is a number from 60 to 900, not '5'"),
        ({"WorkerTimeout": "-5"}, "WorkerTimeout is a number from 60 to 900, not '-5'"),
    ],
    ids=["unknown", "pattern", "choice", "range", "no number"],
)
def test_unknown_parameters_and_invalid_values_are_refused_with_the_reason(parameters: dict[str, str], told: str) -> None:
    with pytest.raises(WrongParameter) as refused:
        check_parameters(parameters)
    assert str(refused.value).startswith(told)


def test_numbers_are_numbers_except_in_environments_which_are_text() -> None:
    template: dict[str, Any] = {
        "Parameters": {"Rate": {"Type": "Number", "Default": 20}, "Name": {"Type": "String"}},
        "Resources": {
            "F": {
                "Properties": {
                    "Events": [{"BatchSize": {"Ref": "Rate"}}],
                    "Environment": {"Variables": {"RATE": {"Ref": "Rate"}, "NAME": {"Ref": "Name"}}},
                }
            }
        },
    }
    write_numbers(template, {"Rate": "7"})
    properties = template["Resources"]["F"]["Properties"]
    assert properties["Events"] == [{"BatchSize": 7}]
    assert properties["Environment"] == {"Variables": {"RATE": "7", "NAME": {"Ref": "Name"}}}
