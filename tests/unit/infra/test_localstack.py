"""The template on LocalStack: its container starts every service, and no reference leads to a resource that a condition leaves
out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from noetl_infra.template_file import read_template
from tests.unit.infra.translated import CHOICES, ROOT, conditions, deployed, translated


def test_the_container_starts_every_service_of_the_template() -> None:
    composed = read_template(ROOT / "infra" / "localstack" / "docker-compose.yml")
    started = set(composed["services"]["localstack"]["environment"]["SERVICES"].split(","))
    kinds = [resource["Type"].split("::")[1].lower() for resource in deployed(PythonPool="yes").values()]
    assert {kind for kind in kinds if kind not in started} == set()


def attributes_read(value: Any, true: Callable[[str], bool]) -> Iterator[str]:
    """The resources whose attributes a template's value reads, with conditions decided."""
    if isinstance(value, list):
        for each in value:
            yield from attributes_read(each, true)
    if not isinstance(value, dict):
        return
    for name, told in value.items():
        if name == "Fn::If":
            yield from attributes_read(told[1] if true(told[0]) else told[2], true)
            continue
        if name == "Fn::GetAtt":
            yield told.partition(".")[0] if isinstance(told, str) else told[0]
        elif name == "Fn::Sub":
            yield from re.findall(r"\$\{(\w+)", told if isinstance(told, str) else told[0])
        yield from attributes_read(told, true)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("parameters", CHOICES, ids=lambda p: "+".join(p) or "defaults")
def test_resources_left_out_by_conditions_read_no_other_left_out_resource(parameters: Mapping[str, str]) -> None:
    """LocalStack evaluates the properties of every resource before its condition, and the deployment fails on an attribute of a
    resource that is left out. CloudFormation does not evaluate them."""
    template, true = translated(**parameters), conditions(**parameters)
    left_out = {name for name, r in template["Resources"].items() if "Condition" in r and not true(r["Condition"])}
    read = {
        name: sorted(left_out & set(attributes_read(template["Resources"][name]["Properties"], true)))
        for name in sorted(left_out)
    }
    assert {name: others for name, others in read.items() if others} == {}
