"""One environment of a function that cannot be started, or is lost, is no trouble of the others (MiniStack's own pool)."""

from __future__ import annotations

import io
import os
import signal
import zipfile
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from noetl_infra.environments import contain
from tests.unit.infra.runtimes import lambda_runtime

CODE = """
import os
if os.path.exists({broken!r}):
    os._exit(1)  # killed while it starts
def handler(event, context):
    return os.getpid()
"""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with lambda_runtime(monkeypatch, "_spawn", "invoke") as found:
        contain(found)
        yield found


@pytest.fixture
def broken(tmp_path: Any) -> Any:
    """Processes die while they start as long as this file is there."""
    return tmp_path / "broken"


@pytest.fixture
def call(runtime: Any, broken: Any) -> Any:
    """Invokes the function as MiniStack does; a dictionary with the process that answered, or what went wrong."""
    svc = import_module("ministack.services.lambda_svc")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("app.py", CODE.format(broken=str(broken)))
    config = {
        "FunctionName": "worker",
        "FunctionArn": "arn:aws:lambda:us-east-1:000000000000:function:worker",
        "Runtime": "python3.11",
        "Handler": "app.handler",
    }
    func = {"config": config, "code_zip": packed.getvalue()}
    return lambda: svc._execute_function_warm(func, {}, "request")


def leased(runtime: Any, call: Any) -> tuple[Any, int]:
    """An environment at work on something, and its process."""
    process = call()["body"]
    (pool,) = runtime._workers.values()
    worker = pool[0]
    worker.in_use = True
    return worker, process


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.nightly
def test_an_environment_that_does_not_start_leaves_the_others_at_work(runtime: Any, call: Any, broken: Any) -> None:
    worker, process = leased(runtime, call)
    broken.touch()
    failed = call()
    assert failed["error"] and "exited immediately" in failed["body"]["errorMessage"]
    assert alive(process), "the process that was at work was ended with it"
    assert os.path.isdir(worker._tmpdir), "its code was removed"


@pytest.mark.nightly
def test_an_environment_that_failed_to_start_starts_with_the_next_invocation(call: Any, broken: Any) -> None:
    broken.touch()
    assert call()["error"]
    broken.unlink()
    assert alive(call()["body"])


@pytest.mark.nightly
def test_a_start_that_fails_once_costs_no_invocation(runtime: Any, call: Any, broken: Any) -> None:
    broken.touch()
    real = runtime.kill_workers

    def ended(workers: Any) -> None:
        broken.unlink(missing_ok=True)
        real(workers)

    runtime.kill_workers = ended
    try:
        assert "error" not in call()
    finally:
        runtime.kill_workers = real


@pytest.mark.nightly
def test_a_killed_process_is_followed_by_another(call: Any) -> None:
    first = call()["body"]
    os.kill(first, signal.SIGKILL)
    answers = [call() for _ in range(2)]  # the one that finds it dying is lost, as on AWS
    assert answers[-1]["body"] != first and "error" not in answers[-1]


def test_a_process_overtaken_by_a_deployment_while_starting_is_ended(runtime: Any, call: Any) -> None:
    spawn = runtime.Worker._spawn

    def overtaken(worker: Any) -> None:
        runtime.invalidate_worker("worker")
        spawn(worker)

    runtime.Worker._spawn = overtaken
    process = call()["body"]
    assert isinstance(process, int)
    assert not alive(process)
