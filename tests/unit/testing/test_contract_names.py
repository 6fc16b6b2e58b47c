"""The contracts of the ports are found by name, in the package that authors of adapters import."""

from __future__ import annotations

import pytest

from noetl_core.testing import contracts


@pytest.mark.parametrize("name", contracts.__all__)
def test_each_contract_is_found_by_its_name(name: str) -> None:
    assert getattr(contracts, name).__name__ == name


def test_an_unknown_contract_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NoContract'"):
        _ = contracts.NoContract
