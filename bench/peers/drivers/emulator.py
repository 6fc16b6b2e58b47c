"""Common parts of drivers on the emulated AWS: clients, functions from source text, and one client for many executions."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

STARTERS = 8
POLLS_S = 0.02
ROLE = "arn:aws:iam::000000000000:role/peers"


def client(service: str, endpoint: str) -> Any:
    """One that waits as long as a case may take, and repeats nothing."""
    settings = Config(read_timeout=120, retries={"max_attempts": 0}, max_pool_connections=32)
    return boto3.client(  # type: ignore[call-overload]  # the stubs know services by literal names
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=settings,
    )


def function(lambdas: Any, name: str, source: str, packages: Path | None = None, **settings: Any) -> str:
    """Create a function of one file, and of the packages in a folder; return its ARN."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("handler.py", source)
        for file in sorted(packages.rglob("*.py")) if packages else ():
            archive.write(file, file.relative_to(packages.parent))
    created = lambdas.create_function(
        FunctionName=name,
        Runtime="python3.12",
        Role=ROLE,
        Handler="handler.handler",
        Code={"ZipFile": packed.getvalue()},
        Timeout=120,
        MemorySize=512,
        **settings,
    )
    return str(created["FunctionArn"])


def by_client(
    start: Callable[[], str],
    describe: Callable[[str], Mapping[str, Any]],
    going_on: str | tuple[str, ...],
    executions: int = 1,
    starters: int = STARTERS,
    limit_s: float = 110,
) -> tuple[float, list[Mapping[str, Any]]]:
    """Return the wall seconds of a client of any side, and the description of each execution when it has ended. The client starts
    executions through the service's API, `starters` at a time, then asks it for each until it has ended."""
    began = time.perf_counter()
    with ThreadPoolExecutor(starters) as pool:
        started = list(pool.map(lambda _: start(), range(executions)))
    ended = _until_ended(describe, started, going_on, limit_s)
    return time.perf_counter() - began, ended


def _until_ended(
    describe: Callable[[str], Mapping[str, Any]], started: Iterable[str], going_on: str | tuple[str, ...], seconds: float
) -> list[Mapping[str, Any]]:
    """Query each execution until it has ended, oldest first. Return the last description of each."""
    found = []
    end = time.monotonic() + seconds
    for one in started:
        while (description := describe(one))["status"] in going_on:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(found)} ended within {seconds:.0f} s")
            time.sleep(POLLS_S)
        found.append(description)
    return found
