"""Restate: its server, the service of restate_service.mjs in Node.js, and this client. Arguments: node_modules, and a folder.

Everything listens on 127.0.0.1, with the server's own settings otherwise.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from protocol import Ask, expect, serve

MODULES, FOLDER = Path(sys.argv[1]), sys.argv[2]


def binary(package: str, name: str) -> str:
    """Return the path of a program in a package that exists per system (`package-linux-x64` and similar). Without the package,
    return the name, to be found on the path."""
    found = sorted(MODULES.glob(f"{package}-*/bin/{name}"))
    return str(found[0]) if found else name


NODE, SERVER = binary("node", "node"), binary("@restatedev/restate-server", "restate-server")


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def post(port: int, path: str, body: Mapping[str, object], connection: http.client.HTTPConnection | None = None) -> object:
    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{path}: {answer.status} {text[:300].decode()}")
    return json.loads(text)


def until_it_takes(port: int, path: str, body: Mapping[str, object], seconds: float = 40) -> None:
    """The first request that a server that is still starting takes."""
    end = time.monotonic() + seconds
    while True:
        try:
            post(port, path, body)
            return
        except (OSError, RuntimeError, http.client.HTTPException):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def main() -> None:
    ingress, admin, node = free_ports(3)
    settings = {
        "RESTATE_BASE_DIR": FOLDER,
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "warn",
    }
    started: list[subprocess.Popen[str]] = []
    try:
        service = subprocess.Popen(
            [NODE, "service.mjs"], cwd=MODULES.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(service)
        assert service.stdout is not None
        port = int(service.stdout.readline())
        with (Path(FOLDER) / "server.log").open("w") as log:
            server = subprocess.Popen([SERVER, "--no-logo"], env=os.environ | settings, stdout=log, stderr=log, text=True)
        started.append(server)
        until_it_takes(admin, "/deployments", {"uri": f"http://127.0.0.1:{port}"})
        until_it_takes(ingress, "/work/chain", {"steps": 1})
        serve(about(), cases(ingress))
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def about() -> dict[str, str]:
    sdk = json.loads((MODULES / "@restatedev" / "restate-sdk" / "package.json").read_text())["version"]
    server = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    node = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {"version": f"{server}, SDK {sdk}, Node.js {node.removeprefix('v')}"}


def cases(ingress: int) -> Mapping[str, Callable[[Ask], float]]:
    def timed(path: str, body: Mapping[str, object], wanted: int) -> float:
        began = time.perf_counter()
        expect(post(ingress, path, body), wanted)
        return time.perf_counter() - began

    def chain(ask: Ask) -> float:
        return timed("/work/chain", {"steps": ask["steps"]}, ask["steps"] - 1)

    def python(ask: Ask) -> float:
        return timed("/work/python", {"steps": ask["steps"]}, 2 * (ask["steps"] - 1))

    def items(ask: Ask) -> float:
        body = {"items": ask["items"], "inFlight": ask["in_flight"]}
        return timed("/work/map", body, ask["items"] * (ask["items"] - 1))

    def calls(ask: Ask) -> float:
        body = {"items": ask["items"], "inFlight": ask["in_flight"], "url": ask["url"]}
        return timed("/work/http", body, ask["items"] * (ask["items"] - 1) // 2)

    def executions(ask: Ask) -> float:
        """All requests are sent before the first answer is read."""
        body = json.dumps({"steps": ask["steps"]})
        connections = [http.client.HTTPConnection("127.0.0.1", ingress, timeout=120) for _ in range(ask["executions"])]
        for connection in connections:
            connection.connect()
        began = time.perf_counter()
        for connection in connections:
            connection.request("POST", "/work/chain", body, {"Content-Type": "application/json"})
        found = {int(connection.getresponse().read()) for connection in connections}
        seconds = time.perf_counter() - began
        for connection in connections:
            connection.close()
        expect(found, {ask["steps"] - 1})
        return seconds

    return {"chain": chain, "python": python, "map": items, "each": items, "http": calls, "executions": executions}


if __name__ == "__main__":
    main()
