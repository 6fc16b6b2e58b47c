"""Restricts the imports of a task's code to the standard library, the packages that its playbook requires, and the libraries of
the engine. Standard library only, because runners use it.

The restriction is the same wherever a task runs: other packages of the worker's interpreter, such as those on a developer's
machine, cannot be imported, so that a playbook that works here also works on a stack. A test compares `LIBRARIES` with the layer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import types

LIBRARIES: Final[dict[str, tuple[str, ...]]] = {
    "aiohappyeyeballs": ("aiohappyeyeballs",),
    "aiohttp": ("aiohttp",),
    "aiosignal": ("aiosignal",),
    "annotated-types": ("annotated_types",),
    "anyio": ("anyio",),
    "attrs": ("attr", "attrs"),
    "aws-lambda-powertools": ("aws_lambda_powertools",),
    "aws-xray-sdk": ("aws_xray_sdk",),
    "botocore": ("botocore",),
    "cachetools": ("cachetools",),
    "certifi": ("certifi",),
    "cffi": ("_cffi_backend", "cffi"),
    "cronsim": ("cronsim",),
    "cryptography": ("cryptography",),
    "duckdb": ("_duckdb", "adbc_driver_duckdb", "duckdb"),
    "frozenlist": ("frozenlist",),
    "google-re2": ("re2",),
    "h11": ("h11",),
    "httpcore": ("httpcore",),
    "httpx": ("httpx",),
    "idna": ("idna",),
    "jinja2": ("jinja2",),
    "jmespath": ("jmespath",),
    "markupsafe": ("markupsafe",),
    "multidict": ("multidict",),
    "packaging": ("packaging",),
    "propcache": ("propcache",),
    "psycopg": ("psycopg",),
    "psycopg-binary": ("psycopg_binary",),
    "pycparser": ("pycparser",),
    "pydantic": ("pydantic",),
    "pydantic-core": ("pydantic_core",),
    "python-dateutil": ("dateutil",),
    "pyyaml": ("_yaml", "yaml"),
    "s3transfer": ("s3transfer",),
    "six": ("six",),
    "tzdata": ("tzdata",),
    "typing-extensions": ("typing_extensions",),
    "typing-inspection": ("typing_inspection",),
    "urllib3": ("urllib3",),
    "wrapt": ("wrapt",),
    "yarl": ("yarl",),
}
"""Distributions of the engine's layer -> their modules."""

_MODULES: Final = frozenset(module for modules in LIBRARIES.values() for module in modules)
# `os.path`, because each process of the sandbox would load `pathlib` for this alone.
_HERE: Final = os.path.abspath(__file__)
_OWN: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(_HERE))))
STANDARD: Final = tuple(p for p in sys.path if p and os.path.abspath(p) != _OWN)
"""In the fork server, which starts without `site`: where the standard library is."""


class EngineLibraries:
    """Finds the modules of `LIBRARIES` on the worker's path, as the last finder."""

    def __init__(self, path: Sequence[str]) -> None:
        self._path = list(path)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of a library of the engine. Submodules are found by the package's path."""
        return PathFinder.find_spec(name, self._path) if path is None and name in _MODULES else None

    def find_distributions(self, context: Any) -> Iterable[Any]:
        """Return the metadata of a library that is requested by name, because some read their own version."""
        if str(context.name).lower().replace("_", "-").replace(".", "-") not in LIBRARIES:
            return []
        found: Iterable[Any] = PathFinder.find_distributions(type(context)(name=context.name, path=self._path))
        return found


def set_import_path(packages: Sequence[str], engine: Sequence[str]) -> None:
    """Restrict imports to the standard library, the folders `packages`, and the engine's libraries from the folders `engine`."""
    sys.path[:] = [*STANDARD, *packages]
    sys.meta_path.append(EngineLibraries(engine))


def advice(error: ModuleNotFoundError) -> str:
    """Return a hint for a missing module; an empty text if there is no useful one."""
    name = (error.name or "").partition(".")[0]
    if not name or name in sys.stdlib_module_names or name in sys.modules or name in _MODULES:
        return ""
    return " (executor.spec.python.requirements names the packages that python tasks import)"
