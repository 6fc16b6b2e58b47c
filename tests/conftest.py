"""One stack for all tests of a process that ask for it, and which tests are carried out by the same process."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

from noetl_infra.stack import Stack
from tests.groups import CONSOLE, STACK, group_of
from tests.properties import examples
from tests.stacks import brought_up

settings.register_profile("suite", examples(100))  # for properties that name no number
settings.load_profile("suite")

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
    """Collect without the garbage collector, and hide from it what stays until the end: modules and tests. Afterwards it runs less
    often than by default, which took a seventh of the processor time of tests that keep many objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `nightly` what `one_in` leaves out, before pytest chooses by marks; sort by duration."""
    cases: Counter[str] = Counter()
    for item in items:
        if mark := item.get_closest_marker("one_in"):
            test = item.nodeid.partition("[")[0]
            if cases[test] % mark.args[0]:
                item.add_marker("nightly")
            cases[test] += 1
    items.sort(key=lambda item: next((n for n, begins in enumerate(FIRST) if item.nodeid.startswith(begins)), len(FIRST)))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with brought_up(tmp_path_factory.mktemp("stack")) as brought:
        yield brought


def company(nodeid: str) -> str:
    """Return what is the same for tests that one process of `-n` runs: a stack, a browser or, for other tests, the file."""
    group = group_of(nodeid)
    if group not in (STACK, CONSOLE):
        return nodeid.partition("::")[0]
    return STACK if "NOETL_E2E_ENDPOINT" in os.environ else group  # one endpoint, one process


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, with `company`. The plugin's own groups (`xdist_group`) are without effect from pytest 9.2 on, as node
    ids are made otherwise there."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = company  # for subclasses to define; it has no types to be one of
    config.option.loadscopereorder = False  # in the order of `FIRST`, not the file with the most tests first
    return scheduler
