"""The example of the manual's page is what the import makes of it."""

from __future__ import annotations

import re
from pathlib import Path

from noetl_import import import_asl

PAGE = Path(__file__).parents[3] / "docs" / "language" / "asl.md"


def test_importing_the_state_machine_of_the_page_gives_its_playbook() -> None:
    definition, _, playbook = (
        PAGE.read_text().partition("## An example")[2].partition("## The document")[0].partition("\n```\nexecutor:")
    )
    (found,) = re.findall(r"```json\n(.*?)```", definition + "\n```", re.DOTALL)
    (text,) = import_asl(found, "example").playbooks.values()
    assert text.partition("executor:")[2] == playbook.partition("\n```\n")[0] + "\n"
