"""parse(dump(model)) = model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from noetl_core.dsl.dump import dump
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import parse_playbook
from tests.properties import examples
from tests.unit.dsl.models import playbooks

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/*/playbook.yaml"))


@examples(25)
@given(playbooks())
def test_a_dumped_model_parses_to_itself(playbook: Playbook) -> None:
    assert parse_playbook(dump(playbook)) == playbook


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.parent.name)
def test_the_examples_survive_being_dumped(path: Path) -> None:
    playbook = parse_playbook(path.read_text(), str(path))
    assert parse_playbook(dump(playbook)) == playbook
