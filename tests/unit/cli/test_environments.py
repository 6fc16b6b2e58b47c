"""`noetl run --env`, and credentials from the environment: docs/environments.md and examples/environments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.commands import ENV
from tests.commands import run as command
from tests.unit.cli.runs import Run, result_of

ROOT = Path(__file__).parents[3]
TOKEN = "s3cret-token-1"


def write(folder: Path, text: str) -> None:
    (folder / "noetl.toml").write_text(text)


def test_a_section_lies_over_the_workload_and_below_payload_and_set(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path, '[env.prod.payload]\nname = "prod"\ndeep = { n = 5 }\n[env.dev.payload]\nname = "dev"\n')
    assert result_of(noetl("run", "hello.yaml", "--env", "prod", "--output", "json"))["result"] == {
        "greeting": "Hello, prod!",
        "n": 5,
    }
    options = ("--payload", '{"name": "given"}', "--env", "prod", "--output", "json")
    assert result_of(noetl("run", "hello.yaml", *options))["result"] == {"greeting": "Hello, given!", "n": 5}
    assert result_of(noetl("run", "hello.yaml", *options, "--set", "deep.n=7"))["result"] == {"greeting": "Hello, given!", "n": 7}
    assert result_of(noetl("run", "hello.yaml", "--output", "json"))["result"] == {"greeting": "Hello, world!", "n": 1}


def test_the_file_is_found_above_and_beside_the_playbook(noetl: Run, tmp_path: Path) -> None:
    inner = tmp_path / "team" / "flows"
    inner.mkdir(parents=True)
    shutil.copy(tmp_path / "hello.yaml", inner)
    write(tmp_path, '[env.prod.payload]\nname = "above"\n')
    assert (
        result_of(noetl("run", "team/flows/hello.yaml", "--env", "prod", "--output", "json"))["result"]["greeting"]
        == "Hello, above!"
    )
    write(inner, '[env.prod.payload]\nname = "beside"\n')
    assert (
        result_of(noetl("run", "team/flows/hello.yaml", "--env", "prod", "--output", "json"))["result"]["greeting"]
        == "Hello, beside!"
    )


def test_a_section_sets_where_playbooks_run_unless_options_override_it(noetl: Run, tmp_path: Path) -> None:
    write(tmp_path, '[env.prod]\nstore = "prod.db"\n[env.far]\non = "http://127.0.0.1:9"\n')
    result_of(noetl("run", "hello.yaml", "--env", "prod", "--output", "json"))
    assert (tmp_path / "prod.db").exists()
    assert noetl("run", "hello.yaml", "--env", "far").returncode == 3
    result_of(noetl("run", "hello.yaml", "--env", "far", "--on", "local", "--output", "json"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no noetl.toml"),
        ("", "it has no environments"),
        ("[env.dev]\n[env.test]\n", "it has dev, test"),
        ("[env.prodd]\n", 'did you mean "prodd"?'),
        ("[env.prod]\nname = 'x'\n", "inputs go into [env.prod.payload]"),
        ("[env.prod]\npayload = 1\n", "payload must be a table"),
        ("[env.prod]\non = 1\n", "on must be text"),
        ("[env.prod.payload]\nday = 2026-01-02\n", "write dates as text"),
        ("[env.prod.payload]\nn = nan\n", "[env.prod]"),
        ("env = 1\n", "env must have one table for each environment"),
        ("[env.prod\n", "noetl.toml"),
    ],
)
def test_an_invalid_environment_is_a_usage_error_with_its_reason(
    noetl: Run, tmp_path: Path, text: str | None, words: str
) -> None:
    if text is not None:
        write(tmp_path, text)
    done = noetl("run", "hello.yaml", "--env", "prod")
    assert done.returncode == 2 and words in done.stderr


def test_the_example_reads_its_environment_and_its_credential(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/environments", tmp_path / "examples/environments")

    def ran(*arguments: str, **env: str) -> object:
        done = command(
            "run",
            "examples/environments/playbook.yaml",
            *arguments,
            "--output",
            "json",
            "--events",
            cwd=tmp_path,
            env={**ENV, **env},
        )
        assert TOKEN not in done.stdout + done.stderr
        return json.loads(done.stdout)["result"]

    prod = {"environment": "prod", "api": "https://api.example.org", "batches": 5, "signed_in": True}
    credential = {"NOETL_CREDENTIAL_ORDERS_PROD": json.dumps({"token": TOKEN})}
    assert ran("--env", "prod", **credential) == prod
    assert ran("--env", "prod", "--set", "batch=10", **credential) == {**prod, "batches": 3}
    assert ran("--env", "staging") == {
        "environment": "staging",
        "api": "https://staging.example.org",
        "batches": 3,
        "signed_in": False,
    }
    assert ran("--env", "prod") is None, "without the credential it fails"
    nested = {"NOETL_CREDENTIAL_ORDERS_PROD": json.dumps({"type": "bearer", "data": {"token": TOKEN}})}
    assert ran("--env", "prod", **nested) == prod
