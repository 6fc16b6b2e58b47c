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
MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
RUNTIMES = source()["Parameters"]["LambdaRuntime"]["AllowedValues"]


def test_the_layer_is_installed_from_the_lock() -> None:
    """`make layer` writes the file."""
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    command = [uv, "export", "--quiet", "--frozen", "--only-group", "layer", "--no-emit-project", "--no-header"]
    locked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (LAYER / "requirements.txt").read_text() == locked


def test_everything_the_layer_installs_has_its_hashes() -> None:
    pinned = re.split(r"\n(?=\S)", (LAYER / "requirements.txt").read_text().strip())
    assert len(pinned) > 20
    assert [p for p in pinned if not re.match(r"[\w.-]+==\S+( ; .+)? \\\n +--hash=sha256:[0-9a-f]{64}", p)] == []


@pytest.mark.parametrize("architecture", source()["Parameters"]["Architecture"]["AllowedValues"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_layer_is_built_for_the_runtime_and_the_architecture_that_parameters_say(runtime: str, architecture: str) -> None:
    """`sam build` decides intrinsics of Metadata, and runs make in the working directory that it names."""
    metadata = source()["Resources"]["CoreLayer"]["Metadata"]
    assert metadata["BuildArchitecture"] == {"Ref": "Architecture"}
    said = {"LambdaRuntime": runtime, "Architecture": architecture}
    folder = re.sub(r"\$\{(\w+)\}", lambda m: said[m[1]], metadata["WorkingDirectory"]["Fn::Sub"])
    command = ["make", "--dry-run", "--makefile", str(LAYER / "Makefile"), "build-CoreLayer", "ARTIFACTS_DIR=/nowhere"]
    told = subprocess.run(command, cwd=ROOT / folder, capture_output=True, text=True, check=True).stdout
    assert f"--python-version {runtime.removeprefix('python')} " in told
    assert f"--python-platform {MACHINES[architecture]}-manylinux_2_28 " in told
    assert "--require-hashes" in told
    assert f'--requirement "{LAYER}/requirements.txt"' in told


def test_nothing_else_can_say_what_the_layer_is_built_for() -> None:
    assert not re.search(r"\?=|LAYER_", (LAYER / "Makefile").read_text())
    for environment, commands in tomllib.loads((ROOT / "samconfig.toml").read_text()).items():
        if environment != "version":
            named = [command for command, said in commands.items() if "parameter_overrides" in said["parameters"]]
            assert named in ([], ["global"]), f"{environment}: sam build and sam deploy read the same parameters"


def test_the_architectures_and_runtimes_of_samconfig_are_the_templates() -> None:
    declared = source()["Parameters"]
    for environment, commands in tomllib.loads((ROOT / "samconfig.toml").read_text()).items():
        if environment == "version":
            continue
        for said in commands.get("global", {}).get("parameters", {}).get("parameter_overrides", "").split():
            name, _, value = said.partition("=")
            rules = declared[name]
            assert value in map(str, rules.get("AllowedValues", [value])), f"{environment}: {said}"
            assert re.fullmatch(rules.get("AllowedPattern", ".*"), value), f"{environment}: {said}"


@pytest.mark.one_in(3)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what samcli calls
@pytest.mark.parametrize("function", ["AdmitFunction", "WorkerFunction", "PythonWorkerFunction"])
def test_sam_local_finds_the_layer_of_every_function(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Its own resolver knows less than CloudFormation's: what it cannot decide it takes for a layer's name."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    resources = SamBaseProvider.get_template(get_template_data(str(ROOT / "template.yaml")), {"PythonPool": "yes"})["Resources"]
    assert resources[function]["Properties"]["Layers"] == [{"Ref": "CoreLayer"}]
