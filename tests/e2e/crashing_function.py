"""Deployed in place of a function's `app`: its process crashes natively when it evaluates an arc of the playbook of `test_deaths`."""

from __future__ import annotations

import ctypes
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from noetl_core.engine.routing import rules
from noetl_core.expr import truthy

MARK = "ends the process"
DEATHS = Path(__file__).with_name("deaths")
"""A file with the name of the file that lists the processes which ended."""


def evaluate(value: Any, *more: Any, **options: Any) -> bool:
    if MARK in str(value):
        with Path(DEATHS.read_text()).open("a") as deaths:
            deaths.write(f"{os.getpid()}\n")
        ctypes.string_at(0)
    return truthy(value, *more, **options)


vars(rules)["truthy"] = evaluate

handler = import_module("routed").handler  # the function's own, loaded after the change
