"""Registering and validating compare the payloads of called playbooks with what is registered (W532)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noetl_core.control.catalog.versions import set_alias
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.operations.base import Operations

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: p, path: {path} }}\n"
CHILD = (
    HEAD.format(path="t/child")
    + "workload: { CUSTOMER: 0 }\nworkflow: [{ step: a, tool: { kind: noop, result: '{{ workload.CUSTOMER }}' } }]\n"
)
PARENT = HEAD.format(path="t/parent") + "workflow:\n- step: a\n  tool: { kind: playbook, CALL, payload: { custmer: 7 } }\n"
TYPO = '6:53 W532 t/child has no input custmer (did you mean "customer"?)'


@pytest.fixture
def operations() -> Iterator[Operations]:
    wiring = LocalWiring()
    yield Operations(lambda: wiring.control, lambda: b"")
    wiring.close()


def parent(call: str = "path: t/child") -> str:
    return PARENT.replace("CALL", call)


def child(customer: str = "customer") -> str:
    return CHILD.replace("CUSTOMER", customer)


def test_a_payload_that_the_registered_child_does_not_take_is_a_warning(operations: Operations) -> None:
    operations.register(child())
    assert operations.register(parent())["warnings"] == [TYPO]
    assert [d["code"] for d in operations.validate(parent())["diagnostics"]] == ["W532"]


def test_the_payload_of_an_unregistered_child_gives_no_warning(operations: Operations) -> None:
    assert operations.register(parent())["warnings"] == []
    operations.register(child())
    assert operations.register(parent("path: 't/{{ workload.which }}'"))["warnings"] == []


def test_a_payload_that_fits_gives_no_warning(operations: Operations) -> None:
    operations.register(child("custmer"))
    assert operations.register(parent())["warnings"] == []


def test_the_version_that_is_called_decides(operations: Operations) -> None:
    operations.register(child())
    operations.register(child("custmer"))
    assert operations.register(parent())["warnings"] == []
    (warning,) = operations.register(parent("path: t/child@1"))["warnings"]
    assert "W532 t/child has no input custmer" in warning
    set_alias(operations.control(), "t/child", "prod", {1: 1})
    assert len(operations.register(parent("path: t/child@prod"))["warnings"]) == 1
    set_alias(operations.control(), "t/child", "prod", {1: 9, 2: 1})
    assert operations.register(parent("path: t/child@prod"))["warnings"] == [], "which of them runs is drawn"


def test_a_comment_silences_the_warning_about_a_payload(operations: Operations) -> None:
    operations.register(child())
    assert operations.register(parent().replace("7 } }", "7 } } # noetl: ignore W532"))["warnings"] == []
