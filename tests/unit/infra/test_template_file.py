"""template.yaml is read as samtranslator reads it."""

from __future__ import annotations

from pathlib import Path

from samtranslator.yaml_helper import yaml_parse

from noetl_infra.template_file import read_template

TEMPLATE = Path(__file__).parents[3] / "template.yaml"


def test_the_template_reads_as_by_the_sam_translator() -> None:
    assert read_template(TEMPLATE) == yaml_parse(TEMPLATE.read_text())


def test_short_forms_become_long_ones(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text("a: !GetAtt Table.Arn\nb: !Join ['-', [!Ref Name, x]]\n")
    assert read_template(file) == {"a": {"Fn::GetAtt": ["Table", "Arn"]}, "b": {"Fn::Join": ["-", [{"Ref": "Name"}, "x"]]}}
