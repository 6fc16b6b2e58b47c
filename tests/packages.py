"""Packages to install without an index: wheels that are made here, in a folder that uv is told of."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

SAMPLE = "noetl-sample==1.0"
"""The package that `index` always has: its `noetl_sample.double` doubles."""


def wheel(folder: Path, name: str, version: str, source: str, *requires: str) -> Path:
    """A pure wheel with one module."""
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    folder.mkdir(parents=True, exist_ok=True)
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    file = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{module}.py", source)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return file


def index(folder: Path) -> Mapping[str, str]:
    """Return the environment in which packages come from `folder` alone."""
    wheel(folder, "noetl-sample", "1.0", "__version__ = '1.0'\n\n\ndef double(n):\n    return 2 * n\n")
    return {"UV_FIND_LINKS": str(folder), "UV_NO_INDEX": "1", "UV_CACHE_DIR": str(folder / "cache"), "UV_NO_CONFIG": "1"}
