"""Local services of an example: processes that are started before a run and stopped after it.

A playbook file may declare them under the free root key `x-services`:

    x-services:
      - name: flights
        command: python server.py --port {port}     # run in the playbook's folder, without a shell
        health: /health                             # answers 200 once the service is ready
        bind: workload.api_url                      # where the playbook expects its address

`noetl run FILE` starts each on a free loopback port, waits until it is healthy, passes its address to the run as payload, and
ends the process when the run is over. A service whose address the caller gave is not started. Only files are read for this: a
playbook from the catalog never starts anything on the caller's machine.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

READY_WITHIN_S = 30.0
STOP_WITHIN_S = 5.0


class ServiceError(RuntimeError):
    """A declared service cannot be started. Who acts: the author; the message says which service and why."""


@dataclass(frozen=True, slots=True)
class Service:
    """One entry of `x-services`."""

    name: str
    command: str
    health: str
    bind: tuple[str, ...]
    """Path of the address inside `workload`."""

    @classmethod
    def parse(cls, entry: object) -> Service:
        """Raises ServiceError for an entry of another form than the module describes."""
        keys = {"name", "command", "health", "bind"}
        if not isinstance(entry, dict) or set(entry) != keys or not all(isinstance(v, str) for v in entry.values()):
            raise ServiceError(f"x-services: each entry needs the text fields {', '.join(sorted(keys))}; got {entry!r}")
        root, _, path = entry["bind"].partition(".")
        if root != "workload" or not path:
            raise ServiceError(f"x-services: bind must be workload.<key>, not {entry['bind']!r}")
        return cls(entry["name"], entry["command"], entry["health"], tuple(path.split(".")))


@contextmanager
def services_for(playbook_file: Path, payload: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Start the services that `playbook_file` declares; yield payload overrides (`{"api_url": "http://127.0.0.1:40123"}`), to be
    merged
    under the caller's own `payload`. All services are stopped at the end, whatever happened.

    Raises ServiceError when a declaration is wrong, or a service does not become healthy within 30 s.
    """
    overrides: dict[str, Any] = {}
    with ExitStack() as stack:
        for service in _declared(playbook_file):
            if _get(payload or {}, service.bind) is None:
                _put(overrides, service.bind, stack.enter_context(_running(service, playbook_file.parent)))
        yield overrides


def _declared(playbook_file: Path) -> list[Service]:
    text = playbook_file.read_text(encoding="utf-8")
    if "x-services" not in text:  # the usual case, without parsing the file a second time
        return []
    import yaml  # 33 ms: only a text that names services

    document = yaml.safe_load(text)
    entries = document.get("x-services", []) if isinstance(document, dict) else []
    if not isinstance(entries, list):
        raise ServiceError("x-services must be a list")
    return [Service.parse(entry) for entry in entries]


@contextmanager
def _running(service: Service, folder: Path) -> Iterator[str]:
    port = _free_port()
    command = shlex.split(service.command.format(port=port))
    if command[0] in ("python", "python3"):
        command[0] = sys.executable  # the environment that has the project's packages
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            raise ServiceError(f"service {service.name}: cannot run {command[0]}: {error}") from error
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_until_healthy(service, process, address, log)
            yield address
        finally:
            _stop(process)


def _wait_until_healthy(service: Service, process: subprocess.Popen[bytes], address: str, log: IO[bytes]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            log.seek(0)
            output = log.read()[-2000:].decode(errors="replace").strip()
            raise ServiceError(f"service {service.name} ended at once with exit code {process.returncode}: {output}")
        with (
            suppress(OSError),  # not listening yet (URLError is an OSError)
            urllib.request.urlopen(address + service.health, timeout=2) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise ServiceError(f"service {service.name} was not healthy at {address}{service.health} within {READY_WITHIN_S:.0f} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    # The whole session of the process: a service may have children of its own.
    for signal_number, wait in ((signal.SIGTERM, STOP_WITHIN_S), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal_number)
        try:
            process.wait(wait)
            return
        except subprocess.TimeoutExpired:
            continue


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _get(mapping: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        mapping = mapping.get(key) if isinstance(mapping, Mapping) else None
    return mapping


def _put(mapping: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        mapping = mapping.setdefault(key, {})
    mapping[path[-1]] = value
