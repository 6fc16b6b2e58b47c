"""Reads a template of CloudFormation with its short forms of functions, such as `!Ref`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from samtranslator.yaml_helper import intrinsics_multi_constructor


class _Loader(yaml.CSafeLoader):
    """libyaml's, which is seven times as fast as the loader of `samtranslator.yaml_helper.yaml_parse`."""


_Loader.add_multi_constructor("!", intrinsics_multi_constructor)


def read_template(file: Path) -> dict[str, Any]:
    """Return the template in a YAML file, with the long forms of its functions."""
    template: dict[str, Any] = yaml.load(file.read_text(), _Loader)
    return template
