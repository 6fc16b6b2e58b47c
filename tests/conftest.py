"""One stack for all tests of a process that ask for it, and which tests are carried out by the same process."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from noetl_infra.stack import Stack
from tests.properties import examples
from tests.stacks import brought_up

settings.register_profile("suite", examples(100))  # of properties that name no number
settings.load_profile("suite")

KIT, STACK, CONSOLE = "conformance kit", "stack", "console"
TOGETHER = (
    ("tests/conformance/test_stack.py", KIT),
    # It mostly waits, and kills workers: after the kit it holds nobody up, and meets nobody else's workers.
    ("tests/e2e/test_flagship.py::test_a_worker_killed_in_the_middle", KIT),
    ("tests/e2e/", STACK),
    ("tests/matrix/test_stack.py", STACK),
    ("tests/console/test_stack.py", STACK),
    ("tests/console/", CONSOLE),
)
"""Beginnings of node ids, and the group of those tests: each of the first two groups has one stack, the third one browser. Every
other file is a group of its own, so that fixtures of a module start once."""

FIRST = (
    "tests/conformance/test_stack.py",
    "tests/e2e/",
    "tests/unit/examples/",
    "tests/console/",
    "tests/conformance/",
    "tests/sim/",
)
"""The tests that take longest, and mostly wait. Begun last they would run on alone."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects without the garbage collector, and hides from it what stays until the end: modules and 14,000 tests. Each process
    saves six seconds, and each full collection of later tests half of one."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((n for n, begins in enumerate(FIRST) if item.nodeid.startswith(begins)), len(FIRST)))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with brought_up(tmp_path_factory.mktemp("stack")) as brought:
        yield brought


def company(nodeid: str) -> str:
    """Return the group of a test. One process carries out all tests of a group."""
    group = next((name for begins, name in TOGETHER if nodeid.startswith(begins)), None)
    if group is not None and "NOETL_E2E_ENDPOINT" in os.environ:
        return STACK  # one endpoint, one process
    return group or nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, with `TOGETHER`. The plugin's own groups (`xdist_group`) are without effect from pytest 9.2 on, as node
    ids are made otherwise there."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = company  # for subclasses to define; it has no types to be one of
    config.option.loadscopereorder = False  # in the order of `FIRST`, not the file with the most tests first
    return scheduler
