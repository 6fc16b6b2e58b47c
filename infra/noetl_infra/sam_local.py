"""Lets `sam local` run the functions in containers against a stack on this machine: the environment that the stack's
own functions have, and a route from a container to a stack that listens on the loopback address only."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3

from noetl_infra.deploy import STACK, local_environment
from noetl_infra.stack import current

NETWORKS = ("bridge", "podman")
"""Names of the default network of Docker and Podman."""
IP_FREEBIND = getattr(socket, "IP_FREEBIND", 15)
"""Allows binding to an address that no interface has yet: Podman creates its bridge with the first container."""


class NoEngine(Exception):
    """No container engine answers; the message names the remedy."""


class _Engine(HTTPConnection):
    """The API of Docker, or the compatible one of Podman."""

    def __init__(self, host: str) -> None:
        self._at = urlsplit(host)
        super().__init__(self._at.hostname or "localhost", self._at.port or 2375, timeout=10)

    def connect(self) -> None:
        if self._at.scheme == "unix":
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(self._at.path)
        else:
            super().connect()


def gateway(engine: str | None = None) -> str:
    """Return the address under which containers of the engine (`DOCKER_HOST`, or Docker's default) reach this machine. Raises
    `NoEngine`."""
    engine = engine or os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    try:
        with closing(_Engine(engine)) as connection:
            connection.request("GET", "/networks")
            networks = {n["Name"]: n for n in json.loads(connection.getresponse().read())}
        return str(next(networks[name]["IPAM"]["Config"][0]["Gateway"] for name in NETWORKS if name in networks))
    except (OSError, ValueError, StopIteration, LookupError, HTTPException) as error:
        raise NoEngine(
            f"no container engine answers at {engine}: start Docker; or start `podman system service` and set DOCKER_HOST;"
            f" or set ENGINE to a command that runs its arguments where an engine is (make sam-local ENGINE=...): {error}"
        ) from error


def environment(endpoint: str, seen_as: str, name: str = STACK) -> dict[str, dict[str, str]]:
    """Return the environment of the stack's functions, by logical id: the content of `sam local`'s file of `env_vars`.

    `endpoint` is the stack, `seen_as` its address for a container.
    """
    have = local_environment(endpoint)
    make: dict[str, Any] = {
        "endpoint_url": endpoint,
        "region_name": have["AWS_DEFAULT_REGION"],
        "aws_access_key_id": have["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": have["AWS_SECRET_ACCESS_KEY"],
    }
    pages = boto3.client("cloudformation", **make).get_paginator("list_stack_resources").paginate(StackName=name)
    functions = boto3.client("lambda", **make)
    found = {}
    for resource in (r for page in pages for r in page["StackResourceSummaries"] if r["ResourceType"] == "AWS::Lambda::Function"):
        configured = functions.get_function_configuration(FunctionName=resource["PhysicalResourceId"])
        variables: Mapping[str, str] = configured.get("Environment", {}).get("Variables", {})
        text = json.dumps({**variables, "AWS_ENDPOINT_URL": seen_as})
        found[resource["LogicalResourceId"]] = json.loads(text.replace(endpoint, seen_as))  # queue URLs name it too
    return found


@contextmanager
def reachable(endpoint: str, address: str) -> Iterator[str]:
    """Forward connections to `address` of this machine to `endpoint`, at the same port, while the block runs; yield the URL for
    containers."""
    to = urlsplit(endpoint)
    target = (to.hostname or "127.0.0.1", to.port or 80)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
    listener.bind((address, target[1]))
    listener.listen()
    threading.Thread(target=_accept, args=(listener, target), daemon=True).start()
    try:
        yield f"http://{address}:{target[1]}"
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept(listener: socket.socket, target: tuple[str, int]) -> None:
    while True:
        try:
            incoming, _ = listener.accept()
        except OSError:  # closed
            return
        threading.Thread(target=_serve, args=(incoming, target), daemon=True).start()


def _serve(incoming: socket.socket, target: tuple[str, int]) -> None:
    """Copy both ways until both sides have closed."""
    with suppress(OSError), incoming, socket.create_connection(target) as outgoing:
        back = threading.Thread(target=_copy, args=(outgoing, incoming), daemon=True)
        back.start()
        _copy(incoming, outgoing)
        back.join()


def _copy(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


def main() -> int:
    """Write the environment file and forward connections until stopped: `python -m noetl_infra.sam_local`."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--file", type=Path, default=Path(".noetl/environment.json"), help="file for the environment")
    options.add_argument("--address", help="address of this machine for containers (default: reported by the container engine)")
    chosen = options.parse_args()
    stack = current()
    if stack is None:
        print("no stack is up here: run `noetl up` first", file=sys.stderr)
        return 3
    try:
        address = chosen.address or gateway()
    except NoEngine as error:
        print(error, file=sys.stderr)
        return 3
    with reachable(stack.endpoint, address) as seen_as:
        chosen.file.parent.mkdir(parents=True, exist_ok=True)
        chosen.file.write_text(json.dumps(environment(stack.endpoint, seen_as), indent=2))
        print(
            f"containers reach {stack.endpoint} as {seen_as}; {chosen.file} has the functions' environment. Ctrl-C ends it",
            flush=True,
        )
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    os._exit(main())  # do not wait for the threads of open connections
