"""The page names every field of a credential that is shown."""

from __future__ import annotations

import re
from pathlib import Path

from noetl_core.tools.masking.credential_fields import BY_KIND, COMMON

PAGE = (Path(__file__).parents[3] / "docs/access.md").read_text()


def test_the_page_names_the_public_fields_of_every_kind() -> None:
    (common,) = re.findall(r"In every credential these are (.*?)\. The credential's type", PAGE, re.DOTALL)
    rows = re.findall(r"^\| (`.*?`) \| (`.*?`) \|$", PAGE, re.MULTILINE)
    told = {kind: set(re.findall(r"`(\w+)`", fields)) for kinds, fields in rows for kind in re.findall(r"`(\w+)`", kinds)}
    assert set(re.findall(r"`(\w+)`", common)) == COMMON
    assert {kind: told.get(kind) for kind in BY_KIND} == {kind: set(fields) for kind, fields in BY_KIND.items()}
