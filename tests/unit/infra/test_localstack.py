"""The container that is written down for LocalStack: it has what the template asks for."""

from __future__ import annotations

from samtranslator.yaml_helper import yaml_parse

from tests.unit.infra.translated import ROOT, deployed


def test_the_container_starts_every_service_of_the_template() -> None:
    composed = yaml_parse((ROOT / "infra" / "localstack" / "docker-compose.yml").read_text())
    started = set(composed["services"]["localstack"]["environment"]["SERVICES"].split(","))
    kinds = [resource["Type"].split("::")[1].lower() for resource in deployed(PythonPool="yes").values()]
    assert {kind for kind in kinds if kind not in started} == set()
