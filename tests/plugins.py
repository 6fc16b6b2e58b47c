"""Tool kinds of other distributions, as if they were the installed ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest


def install_only(patch: pytest.MonkeyPatch, *tools: type[Any]) -> None:
    """Let `tools` be all kinds that installed distributions have."""

    def found(group: str, name: str = "") -> list[Any]:
        return [SimpleNamespace(name=one.kind, load=lambda one=one: one) for one in tools if name in ("", one.kind)]

    patch.setattr("importlib.metadata.entry_points", found)
