"""The contracts of the ports: tests for authors of adapters, with pytest (docs/testing.md, "Adapters of your own").

Each class has the tests that an adapter of its port passes; its docstring names the fixtures that a subclass defines. The adapters
of this project pass the same classes. `event_store`, `catalog` (playbooks, executions and gates), `stores` (results, credentials,
sealing, the queue), `key_values`, `limits`, `rates`, `access_tokens` and `triggers` have the classes, `clocks` a clock that tests move.
They are loaded at their first use, and need pytest, which NoETL does not install.
"""

from importlib import import_module
from typing import Any

_PLACES = {
    "CommandQueueContract": "stores",
    "DurableLogContract": "event_store",
    "EventStoreContract": "event_store",
    "ExecutionIndexContract": "catalog",
    "FakeClock": "clocks",
    "GatesContract": "catalog",
    "KeyValuesContract": "key_values",
    "LastingGatesContract": "catalog",
    "LastingIndexContract": "catalog",
    "LimitPlacesContract": "limits",
    "PlaybookCatalogContract": "catalog",
    "RateLimitsContract": "rates",
    "RequestRatesContract": "rates",
    "ResultStoreContract": "stores",
    "SealerContract": "stores",
    "SecretsContract": "stores",
    "TokenCacheContract": "access_tokens",
    "TriggerStoreContract": "triggers",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
