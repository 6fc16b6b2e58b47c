"""Finishes the folder of the layer once everything is installed into it: takes away what no function needs, compiles the rest.

`python layer.py FOLDER VERSION`: FOLDER is the layer's `python` or the package of the workers, VERSION that of the functions'
Python, which must be what runs this, because no other reads the bytecode. Both builds call it (the Makefiles beside it and in
`functions/worker`, and `noetl_infra.package`); it needs nothing but the standard library, and the same files give the same bytes.

* The engine keeps its sources, with the bytecode in `__pycache__`: it is not compared with them when it is loaded (PEP 552), so
  no time stamp of an archive makes it stale.
* Libraries are bytecode alone, without docstrings, each `module.pyc` in place of its `module.py`. An interpreter prefers a
  source that lies beside it, so a library that another layer brings in another version is never mixed with the bytecode of this
  one.
* Shared libraries have no symbols for debuggers: what no program header maps is cut off.
* What distributions say about themselves is their headers, without the page of a package index.
* botocore has the services that the engine uses: the list of 430 costs each cold start more than the services themselves.
  Their descriptions are without documentation.
"""

from __future__ import annotations

import ast
import gzip
import json
import marshal
import os
import shutil
import struct
import sys
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from py_compile import PycInvalidationMode
from py_compile import compile as compile_file
from typing import Any

ENGINE = "noetl_core"
SERVICES = frozenset({"dynamodb", "ecs", "events", "kms", "lambda", "s3", "secretsmanager", "sesv2", "sns", "sqs", "sts"})
"""AWS services for which the engine creates clients."""
UNUSED = (
    "bin",
    ".lock",
    "*-stubs",
    "_duckdb-stubs",
    "**/*.pyi",
    "**/py.typed",
    "**/*.c",
    "**/*.h",
    "**/*.pxd",
    "**/*.pyx",
    "*.dist-info/RECORD",
    "*.dist-info/WHEEL",
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
    "*.dist-info/top_level.txt",
    "*.dist-info/sboms",
    "adbc_driver_duckdb",
    "aiohttp/_websocket/*.so",  # WebSockets are unused, and a Python version exists
    "aiohttp/pytest_plugin.py",
    "aiohttp/test_utils.py",
    "aiohttp/web*.py",  # only the client is used
    "aiohttp/worker.py",
    "anyio/_backends/_trio.py",
    "anyio/pytest_plugin.py",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/*.js",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/*.css",
    "aws_lambda_powertools/utilities/auth_alpha",
    "aws_lambda_powertools/utilities/circuit_breaker",
    "aws_lambda_powertools/utilities/data_masking",
    "aws_lambda_powertools/utilities/feature_flags",
    "aws_lambda_powertools/utilities/idempotency",
    "aws_lambda_powertools/utilities/kafka",
    "aws_lambda_powertools/utilities/parameters",
    "aws_lambda_powertools/utilities/parser",
    "aws_lambda_powertools/utilities/streaming",
    "aws_lambda_powertools/utilities/validation",
    "aws_xray_sdk/ext/aio*",  # only botocore is traced
    "aws_xray_sdk/ext/bottle",
    "aws_xray_sdk/ext/django",
    "aws_xray_sdk/ext/flask*",
    "aws_xray_sdk/ext/http*",
    "aws_xray_sdk/ext/mysql",
    "aws_xray_sdk/ext/p[gsy]*",
    "aws_xray_sdk/ext/requests",
    "aws_xray_sdk/ext/sql*",
    "botocore/cacert.pem",  # botocore uses the certificates of `certifi`, which is installed
    "botocore/data/*/*/examples-1.json",
    "cffi",  # cryptography needs only `_cffi_backend` at run time
    "cffi-*.dist-info",
    "dateutil/easter.py",
    "dateutil/rrule.py",  # `cronsim` reads schedules
    "dateutil/tz/win.py",
    "dateutil/tzwin.py",
    "dateutil/zoneinfo",  # a copy of the system's time zones
    "duckdb/_expression_namespaces.py",  # for expressions made in Python; only SQL is used
    "duckdb/experimental",
    "duckdb/polars_io.py",
    "duckdb/query_graph",
    "httpcore/_backends/trio.py",
    "httpx/_main.py",  # the command line
    "multidict/_multidict_py.py",  # replaced by its C extension
    "multidict/_testcapi*",
    "packaging/dependency_groups.py",
    "packaging/direct_url.py",  # only requirements are read
    "packaging/licenses",
    "packaging/metadata.py",
    "packaging/pylock.py",
    "psycopg/pq/pq_ctypes.py",  # replaced by `psycopg_binary`
    "psycopg/pq/_pq_ctypes.py",
    "pycparser",
    "pycparser-*.dist-info",
    "pydantic/experimental/arguments_schema.py",
    "pydantic/experimental/pipeline.py",
    "pydantic/mypy.py",
    "pydantic/v1",  # imported only for types that pydantic does not know; all of ours are known
    "s3transfer/crt.py",
    "s3transfer/processpool.py",
    "tzdata/zoneinfo/*.tab",  # zones are found by name
    "tzdata/zoneinfo/*.zi",
    "tzdata/zoneinfo/leapseconds",
    "urllib3/contrib/emscripten",
    "urllib3/contrib/pyopenssl.py",
)
"""Files that the layer omits from its libraries: those for compilers, type checkers and installers, and modules that nothing
imports."""
LAYER_AT, PACKAGE_AT = "/opt/python", "/var/task"
"""The folders to which Lambda unpacks a layer and a function's package. Tracebacks name them."""
UNCHECKED = b"\x01\0\0\0"
"""Flags of bytecode that has a hash of its source, which nothing compares (PEP 552)."""
WHEN = 315_532_800
"""1980, the first time that an archive can hold."""


def finish(folder: Path) -> None:
    """Do all of it, in place."""
    exclude = Path(__file__).with_name("exclude.txt").read_text(encoding="utf-8").splitlines()
    for line in exclude:
        if line and not line.startswith("#") and (folder / ENGINE).is_dir():
            _remove(folder / ENGINE / line)
    for cache in list(folder.rglob("__pycache__")):
        _remove(cache)
    for pattern in UNUSED:
        for found in sorted(folder.glob(pattern)):
            _remove(found)
    for metadata in folder.glob("*.dist-info/METADATA"):
        headers, blank, _ = metadata.read_bytes().partition(b"\n\n")  # the rest is the description for a package index
        _write(metadata, headers + blank)
    if (folder / "botocore").is_dir():
        keep_services(folder / "botocore" / "data")
    for source in sorted(folder.rglob("*.py")):
        compile_module(source, folder)
    for library in sorted(p for p in folder.rglob("*.so*") if p.is_file()):
        drop_symbols(library)
    for path in folder.rglob("*"):
        os.utime(path, (WHEN, WHEN))


def keep_services(data: Path) -> None:
    """Leave `SERVICES` in botocore's data, and their endpoints. Every client reads them all."""
    for service in data.iterdir():
        if service.is_dir() and service.name not in SERVICES:
            _remove(service)
    endpoints = json.loads((data / "endpoints.json").read_bytes())
    for partition in endpoints["partitions"]:
        partition["services"] = {name: where for name, where in partition["services"].items() if name in SERVICES}
    _write(data / "endpoints.json", json.dumps(endpoints, separators=(",", ":")).encode())
    for service in data.glob("*/*/service-2.json.gz"):
        described = _undocumented(json.loads(gzip.decompress(service.read_bytes())))
        _write(service, gzip.compress(json.dumps(described, separators=(",", ":")).encode(), mtime=0))


READ = "clientContextParams"
"""The part of a description whose documentation botocore reads, with each request (`ServiceModel.client_context_parameters`)."""


def _undocumented(described: Any) -> Any:
    """Return a description without the texts for readers, which are most of it. A member of that name is a mapping, and stays."""
    if isinstance(described, dict):
        kept = {k: v for k, v in described.items() if k != "documentation" or not isinstance(v, str)}
        return {k: v if k == READ else _undocumented(v) for k, v in kept.items()}
    return [_undocumented(each) for each in described] if isinstance(described, list) else described


def _write(path: Path, body: bytes) -> None:
    """Replace a file by another one. The old one may be a link into an installer's cache, which stays as it is."""
    path.unlink()
    path.write_bytes(body)


def compile_module(source: Path, folder: Path) -> None:
    """Compile one file. Raises `PyCompileError` or `SyntaxError`."""
    inside = source.relative_to(folder).as_posix()
    if inside.startswith(f"{ENGINE}/"):
        cached = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        mode = PycInvalidationMode.UNCHECKED_HASH
        compile_file(str(source), cfile=str(cached), dfile=f"{LAYER_AT}/{inside}", doraise=True, invalidation_mode=mode)
        return
    body = source.read_bytes()
    tree = ast.parse(body, inside)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node, False):
            node.body[:1] = [ast.copy_location(ast.Pass(), node.body[0])] if len(node.body) == 1 else []
    code = compile(tree, f"{LAYER_AT if (folder / ENGINE).is_dir() else PACKAGE_AT}/{inside}", "exec", dont_inherit=True)
    source.with_suffix(".pyc").write_bytes(MAGIC_NUMBER + UNCHECKED + source_hash(body) + marshal.dumps(code))
    source.unlink()


def drop_symbols(library: Path) -> None:
    """Cut off what follows the last mapped byte of a shared library (ELF, 64 bits, little-endian): debugging information and the
    table of sections, which the loader does not read."""
    body = bytearray(library.read_bytes())
    if body[:6] != b"\x7fELF\x02\x01":
        return
    table, size, count = struct.unpack_from("<Q", body, 32)[0], *struct.unpack_from("<HH", body, 54)
    end = table + size * count
    for header in range(table, end, size):
        offset, stored = struct.unpack_from("<Q16xQ", body, header + 8)
        end = max(end, offset + stored)
    struct.pack_into("<Q", body, 40, 0)  # offset of the section table
    struct.pack_into("<HH", body, 60, 0, 0)  # number of sections, and the index of the section with their names
    mode = library.stat().st_mode
    _write(library, bytes(body[:end]))
    library.chmod(mode)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


if __name__ == "__main__":
    target, version = Path(sys.argv[1]), sys.argv[2]
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != version:
        sys.exit(f"the layer is for Python {version}, and this is {running}, whose bytecode it cannot read")
    finish(target)
