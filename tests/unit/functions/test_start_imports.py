"""Modules that a function loads at its start: the necessary ones, and no library of the API in the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.unit.functions.lazy_modules import HEAVY

ROOT = Path(__file__).parents[3]
LOADED = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("app", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(json.dumps(sorted(sys.modules)))
"""
API = {"pydantic", "aws_lambda_powertools.event_handler", "noetl_core.api.requests", "noetl_core.api.shapes.executions"}
DATA_PLANE = {"noetl_core.worker.service", "noetl_core.worker.runner", "noetl_core.tools.registry"}


COLLECTOR = """
import gc, importlib.util, sys
import noetl_core.adapters.aws.functions.cold_start
gc.enable()
sys.modules.pop("noetl_core.adapters.aws.functions.cold_start")  # it is imported by the handler, or not
collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
spec = importlib.util.spec_from_file_location("app", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(len(collections), gc.isenabled())
"""


@cache
def loaded(function: str) -> frozenset[str]:
    return frozenset(json.loads(output_of(LOADED, function)))


def output_of(program: str, function: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "layers" / "noetl_core"),
        "AWS_DEFAULT_REGION": "us-east-1",
        "POWERTOOLS_TRACE_DISABLED": "1",
        "POWERTOOLS_SERVICE_NAME": "noetl",
        "POWERTOOLS_METRICS_NAMESPACE": "NoETL",
    }
    command = [sys.executable, "-c", program, str(ROOT / "functions" / function / "app.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.one_in(3)
@pytest.mark.untraced
@pytest.mark.parametrize("function", ["router", "sweeper", "worker"])
def test_functions_that_serve_no_requests_do_not_import_the_api(function: str) -> None:
    assert loaded(function) & (API | HEAVY) == set()


@pytest.mark.one_in(4)
@pytest.mark.untraced
@pytest.mark.parametrize("function", ["admit", "router", "sweeper", "credentials"])
def test_functions_without_tools_do_not_import_the_data_plane(function: str) -> None:
    assert loaded(function) & (DATA_PLANE | HEAVY) == set()


@pytest.mark.untraced
def test_the_hooks_function_does_not_import_the_playbook_parser_at_start() -> None:
    assert loaded("hooks") & {*API, *DATA_PLANE, *HEAVY, "noetl_core.control.admit", "noetl_core.dsl.parse"} == set()


@pytest.mark.untraced
@pytest.mark.parametrize("function", ["credentials", "hooks"])
def test_functions_without_templates_do_not_load_jinja(function: str) -> None:
    assert loaded(function) & {"jinja2", "noetl_core.expr"} == set()


def test_a_worker_imports_its_runner_before_its_first_command() -> None:
    assert "noetl_core.worker.runner" in loaded("worker")


@pytest.mark.nightly
@pytest.mark.untraced
@pytest.mark.parametrize("function", ["admit", "router", "sweeper", "worker", "credentials", "hooks"])
def test_the_garbage_collector_rests_during_an_import_and_works_behind_it(function: str) -> None:
    collections, works = output_of(COLLECTOR, function).split()
    assert int(collections) < 20 and works == "True", "compiling the handler may need one, importing needs hundreds"
