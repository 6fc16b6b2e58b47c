"""Tests the finished layer: small, compiled, and enough to start every function. It is built for this interpreter from the
installed libraries, in the versions of the lock."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from bench.functions.aws_stub import Services
from bench.functions.cold import BUDGET_MB, WORKER_MB, Cold, size_mb
from packaging.requirements import Requirement

from noetl_infra.package import CORE, LAYER, PINNED, finish
from tests.properties import some
from tests.servers import serving
from tests.unit.functions.lazy_modules import HEAVY
from tests.unit.infra.handlers import HANDLERS, nodes

SPEC = importlib.util.spec_from_file_location("layer", LAYER / "layer.py")
assert SPEC is not None
assert SPEC.loader is not None
build = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build)

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def copy_installed(requirements: Path, folder: Path) -> Path:
    """Copy the installed libraries that are listed, and return their folder."""
    listed = [Requirement(line.strip("\\ ")) for line in re.findall(r"^[\w.-]+==.*$", requirements.read_text(), re.M)]
    for name in [one.name for one in listed if one.marker is None or one.marker.evaluate()]:
        found = distribution(name)
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(found.locate_file(file)), folder / file)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The layer's folder and the workers' package, finished."""
    core, own = (copy_installed(file, tmp_path_factory.mktemp("built") / "python") for file in PINNED)
    shutil.copytree(CORE, core / CORE.name)
    for pattern in build.UNUSED:
        if "/" in pattern and not pattern.startswith("*"):
            assert [*core.glob(pattern), *own.glob(pattern)], f"{pattern}: nothing is there"
    finish(core)
    finish(own)
    return core, own


@pytest.fixture(scope="module")
def layer(installed: tuple[Path, Path]) -> Path:
    return installed[0].parent


@pytest.fixture(scope="module")
def package(installed: tuple[Path, Path]) -> Path:
    return installed[1]


@pytest.fixture(scope="module")
def cold(layer: Path) -> Iterator[Cold]:
    with serving(Services()) as services:
        yield Cold(layer, HANDLERS[0].parents[1], sys.executable, services)


@pytest.mark.nightly
def test_the_layer_is_small_and_so_is_all_that_a_worker_unpacks(layer: Path, package: Path) -> None:
    """Lambda takes 250 MB for a function and its layers, of which further layers want their share."""
    assert size_mb(layer) <= BUDGET_MB
    assert size_mb(layer) + size_mb(package) <= WORKER_MB


@pytest.mark.nightly
def test_libraries_are_bytecode_and_the_engine_is_both(layer: Path) -> None:
    sources = set(layer.rglob("*.py"))
    engine = layer / "python" / "noetl_core"
    assert {f for f in sources if not f.is_relative_to(engine)} == set()
    assert all(Path(importlib.util.cache_from_source(str(f))).exists() for f in sources)
    assert (layer / "python" / "botocore" / "client.pyc").exists()
    assert {f.stat().st_mtime for f in layer.rglob("*.pyc")} == {build.WHEN}


@pytest.mark.nightly
def test_an_execution_is_served_by_the_layer_alone(cold: Cold) -> None:
    """Each handler in a process that has nothing else on its path: an execution is started, its step carried out, its end routed."""
    starts = cold.round()
    assert set(starts) == {file.parent.name for file in HANDLERS}
    for function, start in starts.items():
        assert set(start.modules) & (HEAVY | {"cryptography"}) == set(), f"{function} loads what no event of these needs"
        patches = {m for m in start.modules if m.startswith("aws_xray_sdk.ext.") and m.endswith(".patch")}
        assert patches == {"aws_xray_sdk.ext.botocore.patch"}, function


@pytest.mark.nightly
@pytest.mark.sized
@pytest.mark.parametrize(
    "others", some([{"AWS_SAM_LOCAL": "true"}, {"LAMBDA_TASK_ROOT": None}, {"POWERTOOLS_TRACE_DISABLED": "true"}], 3)
)
def test_functions_start_from_the_layer_where_nobody_listens_for_traces(cold: Cold, others: dict[str, str | None]) -> None:
    """As in a container of `sam local`: X-Ray's library would ask a daemon, by a client that the layer does not have."""
    cold.variables = others
    try:
        starts = cold.round()
    finally:
        cold.variables = {}
    assert not any("aws_xray_sdk.core" in start.modules for start in starts.values())


@pytest.mark.nightly
def test_every_library_of_a_worker_loads(layer: Path, package: Path) -> None:
    """Those that no function loads before a task asks for them, too; shared libraries have been cut."""
    ask = (
        f"import sys; sys.path[:0] = [{str(package)!r}, {str(layer / 'python')!r}]\n"
        "import duckdb, psycopg, httpx, yaml, re2, pydantic, s3transfer.manager\n"
        "from cryptography.hazmat.primitives.ciphers.aead import AESGCM\n"
        "box = AESGCM(bytes(32)).encrypt(bytes(12), b'', None)\n"
        "print(duckdb.connect().execute('SELECT 41 + 1').fetchone()[0], psycopg.pq.__impl__, len(box), yaml.CSafeLoader.__name__)"
    )
    told = subprocess.check_output([sys.executable, "-S", "-B", "-c", ask], text=True)
    assert told == "42 binary 16 CSafeLoader\n"


@pytest.mark.nightly
def test_botocore_has_the_services_that_clients_are_made_of(layer: Path) -> None:
    files = [*CORE.rglob("*.py"), *HANDLERS, *(Path(__file__).parents[3] / "plugins").rglob("*.py")]
    asked = {
        node.args[0].value
        for file in files
        for node in nodes(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "client" and isinstance(node.args[0], ast.Constant)
    }
    assert asked == build.SERVICES
    data = layer / "python" / "botocore" / "data"
    assert {d.name for d in data.iterdir() if d.is_dir()} == build.SERVICES


EVERY_REQUEST = """
import botocore.session

class Sent(Exception): pass

def sends(request, **_): raise Sent

def least(shape):
    kind = shape.type_name
    if kind == "structure":
        needed = shape.required_members or list(shape.members)[: shape.is_tagged_union]
        return {name: least(shape.members[name]) for name in needed}
    if kind == "list":
        return [least(shape.member)] * shape.metadata.get("min", 0)
    return {"map": {}, "boolean": True, "blob": b"x", "timestamp": 0}.get(kind, 1 if kind in ("integer", "long", "float", "double") else "x" * 40)

session = botocore.session.get_session()
for service in SERVICES:
    client = session.create_client(service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    client.meta.events.register("before-send", sends)
    for method, name in client.meta.method_to_api_mapping.items():
        shape = client.meta.service_model.operation_model(name).input_shape
        try:
            getattr(client, method)(**({} if shape is None else least(shape)))
        except Sent:
            continue
        print(f"{service}.{method} was not sent")
"""


@pytest.mark.nightly
def test_botocore_makes_every_request_from_the_layers_reduced_service_descriptions(layer: Path) -> None:
    ask = f"import sys; sys.path[:0] = [{str(layer / 'python')!r}]\nSERVICES = {sorted(build.SERVICES)!r}\n{EVERY_REQUEST}"
    done = subprocess.run([sys.executable, "-S", "-B", "-c", ask], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.nightly
def test_a_library_that_another_layer_brings_is_read_from_its_source(layer: Path) -> None:
    """Lambda unpacks layers over each other: a later one's source lies beside the bytecode of this one."""
    other = layer / "python" / "six.py"
    other.write_text("__version__ = 'of another layer'\n")
    try:
        ask = f"import sys; sys.path[:0] = [{str(layer / 'python')!r}]; import six; print(six.__version__)"
        assert subprocess.check_output([sys.executable, "-S", "-B", "-c", ask], text=True) == "of another layer\n"
    finally:
        other.unlink()


@pytest.mark.nightly
def test_botocore_finds_the_certificates_of_authorities(layer: Path) -> None:
    ask = (
        f"import sys; sys.path[:0] = [{str(layer / 'python')!r}]\n"
        "import ssl; from botocore.httpsession import get_cert_path as path\n"
        "ssl.create_default_context(cafile=path(True)); print(path(True))"
    )
    found = subprocess.check_output([sys.executable, "-S", "-B", "-c", ask], text=True).strip()
    assert Path(found).is_relative_to(layer)


@pytest.mark.nightly
def test_functions_start_beside_a_layer_that_brings_awscrt(layer: Path, tmp_path: Path) -> None:
    """botocore takes another of its modules then."""
    crt = tmp_path / "awscrt"
    crt.mkdir()
    (crt / "__init__.py").write_text("__version__ = '0.20.0'\n")
    (crt / "auth.py").write_text("from unittest.mock import MagicMock\nAwsSignatureType = MagicMock()\n")
    (crt / "checksums.py").write_text("")
    ask = (
        f"import sys; sys.path[:0] = [{str(layer / 'python')!r}, {str(tmp_path)!r}]\n"
        "import botocore.auth, botocore.client, botocore.compat, botocore.httpchecksum; print(botocore.compat.HAS_CRT)"
    )
    env = {name: value for name, value in os.environ.items() if name != "BOTO_DISABLE_CRT"}
    assert subprocess.check_output([sys.executable, "-S", "-B", "-c", ask], text=True, env=env) == "True\n"


def test_a_library_has_no_docstrings_and_all_its_statements(tmp_path: Path) -> None:
    source = tmp_path / "lib.py"
    source.write_text(
        '"""A page."""\nfrom __future__ import annotations\n\ndef f(x: int) -> None:\n    """A page."""\n    assert x, x\n\ndef g():\n    "A page."\n'
    )
    build.compile_module(source, tmp_path)
    ask = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport lib\nprint(lib.__doc__, lib.f.__doc__, lib.g())\nlib.f(0)"
    done = subprocess.run([sys.executable, "-S", "-c", ask], capture_output=True, text=True)
    assert done.stdout.split() == ["None", "None", "None"]
    assert 'File "/var/task/lib.py", line 6, in f\nAssertionError: 0' in done.stderr
    assert (b"page" in source.with_suffix(".pyc").read_bytes(), source.exists()) == (False, False)


def test_another_python_is_refused(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(LAYER / "layer.py"), str(tmp_path), "2.7"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"the layer is for Python 2.7, and this is {VERSION}, whose bytecode it cannot read\n"


def test_only_elf_libraries_are_cut(tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    other.write_bytes(b"\xcf\xfa\xed\xfe whatever macOS has")
    build.drop_symbols(other)
    assert other.read_bytes() == b"\xcf\xfa\xed\xfe whatever macOS has"


def test_hard_linked_files_outside_the_layer_stay_unchanged(tmp_path: Path) -> None:
    """Installers link files of their cache into a folder: what changes them in place changes every environment."""
    folder, cache = tmp_path / "python", tmp_path / "cache.json"
    data = folder / "botocore" / "data"
    data.mkdir(parents=True)
    text = '{"partitions": [{"services": {"s3": {}, "ec2": {}}}]}'
    cache.write_text(text)
    (data / "endpoints.json").hardlink_to(cache)
    build.keep_services(data)
    assert cache.read_text() == text
    assert "ec2" not in (data / "endpoints.json").read_text()
