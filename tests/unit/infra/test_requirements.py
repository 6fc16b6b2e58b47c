"""The layer installs what the lock says, for where the template's parameters say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from samcli.commands._utils.template import get_template_data
from samcli.lib.providers.sam_base_provider import SamBaseProvider

from tests.unit.infra.translated import source

ROOT = Path(__file__).parents[3]
LAYER = ROOT / "layers" / "noetl_core"
WORKER = ROOT / "functions" / "worker"
BUILT = {"CoreLayer": LAYER, "WorkerFunction": WORKER, "PythonWorkerFunction": WORKER}
MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
RUNTIMES = source()["Parameters"]["LambdaRuntime"]["AllowedValues"]


def pinned(folder: Path) -> list[str]:
    return re.split(r"\n(?=\S)", (folder / "requirements.txt").read_text().strip())


def names(folder: Path) -> set[str]:
    return {line.partition("==")[0] for line in pinned(folder)}


@pytest.mark.parametrize(("group", "folder"), [("layer", LAYER), ("worker", WORKER)])
def test_the_layer_and_the_workers_package_are_installed_from_the_lock(group: str, folder: Path) -> None:
    """`make layer` writes the files."""
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    command = [uv, "export", "--quiet", "--frozen", "--only-group", group, "--no-emit-project", "--no-header"]
    in_layer = [f"--no-emit-package={name}" for name in sorted(names(LAYER)) if folder == WORKER]
    locked = subprocess.run([*command, *in_layer], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (folder / "requirements.txt").read_text() == locked


def test_the_worker_package_holds_only_libraries_that_the_layer_lacks() -> None:
    assert names(WORKER) == {"duckdb", "psycopg", "psycopg-binary"}
    assert names(WORKER) & names(LAYER) == set()


def test_everything_that_is_installed_has_its_hashes() -> None:
    assert len(pinned(LAYER)) > 20
    assert [
        p for p in pinned(LAYER) + pinned(WORKER) if not re.match(r"[\w.-]+==\S+( ; .+)? \\\n +--hash=sha256:[0-9a-f]{64}", p)
    ] == []


@pytest.mark.parametrize("resource", BUILT)
@pytest.mark.parametrize("architecture", source()["Parameters"]["Architecture"]["AllowedValues"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_libraries_are_built_for_the_runtime_and_the_architecture_that_parameters_say(
    runtime: str, architecture: str, resource: str
) -> None:
    """`sam build` decides intrinsics of Metadata, and runs make in the working directory that it names."""
    metadata = source()["Resources"][resource]["Metadata"]
    assert metadata["BuildMethod"] == "makefile"
    assert resource != "CoreLayer" or metadata["BuildArchitecture"] == {"Ref": "Architecture"}
    parameters = {"LambdaRuntime": runtime, "Architecture": architecture}
    folder = re.sub(r"\$\{(\w+)\}", lambda m: parameters[m[1]], metadata["WorkingDirectory"]["Fn::Sub"])
    makefile = str(BUILT[resource] / "Makefile")
    command = ["make", "--dry-run", "--makefile", makefile, f"build-{resource}", "ARTIFACTS_DIR=/nowhere"]
    told = subprocess.run(command, cwd=ROOT / folder, capture_output=True, text=True, check=True).stdout
    assert f"--python-version {runtime.removeprefix('python')} " in told
    assert f"--python-platform {MACHINES[architecture]}-manylinux_2_28 " in told
    assert "--require-hashes" in told
    assert f'--requirement "{BUILT[resource]}/requirements.txt"' in told


def test_only_sam_parameters_set_the_build_target_of_the_layer() -> None:
    assert not re.search(r"\?=|LAYER_", (LAYER / "Makefile").read_text())
    for environment, commands in tomllib.loads((ROOT / "samconfig.toml").read_text()).items():
        if environment != "version":
            named = [command for command, options in commands.items() if "parameter_overrides" in options["parameters"]]
            assert named in ([], ["global"]), f"{environment}: sam build and sam deploy read the same parameters"


def test_the_architectures_and_runtimes_of_samconfig_are_the_templates() -> None:
    declared = source()["Parameters"]
    for environment, commands in tomllib.loads((ROOT / "samconfig.toml").read_text()).items():
        if environment == "version":
            continue
        for pair in commands.get("global", {}).get("parameters", {}).get("parameter_overrides", "").split():
            name, _, value = pair.partition("=")
            rules = declared[name]
            assert value in map(str, rules.get("AllowedValues", [value])), f"{environment}: {pair}"
            assert re.fullmatch(rules.get("AllowedPattern", ".*"), value), f"{environment}: {pair}"


@pytest.mark.one_in(3)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by calls of samcli
@pytest.mark.parametrize("function", ["AdmitFunction", "WorkerFunction", "PythonWorkerFunction"])
def test_sam_local_finds_the_layer_of_every_function(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Its own resolver knows less than CloudFormation's: what it cannot decide it takes for a layer's name."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    resources = SamBaseProvider.get_template(get_template_data(str(ROOT / "template.yaml")), {"PythonPool": "yes"})["Resources"]
    assert resources[function]["Properties"]["Layers"] == [{"Ref": "CoreLayer"}]
