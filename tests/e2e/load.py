"""Many clients at once on the embedded stack, and what its processes take meanwhile."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noetl_infra.stack import Stack
from tests.e2e.support import Api

TRIES = 120
"""How often a client asks again before its start counts as refused."""


@dataclass
class Answers:
    """What clients were told: every answer's status, and the executions that were accepted."""

    statuses: Counter[int] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


def starts(api: Api, body: dict[str, Any], *, count: int, clients: int, patience_s: float = 60) -> Answers:
    """`count` starts of `body` by `clients` at once; who is told 429 comes back after `Retry-After`."""
    answers = Answers()

    def start(number: int) -> None:
        for _ in range(TRIES):
            request = urllib.request.Request(
                f"{api.url}/api/executions",
                json.dumps(body | {"payload": {"n": number}}).encode(),
                {"Content-Type": "application/json"},
            )
            began = time.monotonic()
            headers: Any = {}
            try:
                with urllib.request.urlopen(request, timeout=patience_s) as answer:
                    status, text, headers = answer.status, answer.read(), answer.headers
            except urllib.error.HTTPError as refused:
                with refused:
                    status, text, headers = refused.code, refused.read(), refused.headers
            except OSError as error:
                status, text = 0, repr(error).encode()
            with answers.lock:
                answers.statuses[status] += 1
                answers.slowest_s = max(answers.slowest_s, time.monotonic() - began)
                if status == 202:
                    answers.accepted.append(json.loads(text)["execution_id"])
                    return
                if status != 429 or not headers.get("Retry-After") or json.loads(text)["error"]["code"] != "throttled":
                    answers.wrong.append(f"{status} {dict(headers)} {text[:200]!r}")
                    return
            time.sleep(float(headers["Retry-After"]))
        with answers.lock:
            answers.refused += 1

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(start, range(count)))
    return answers


@dataclass
class Peak:
    """The most that the stack's processes took together."""

    mb: float = 0.0
    processes: int = 0


@contextmanager
def peak(stack: Stack, every_s: float = 0.5) -> Iterator[Peak]:
    """Memory and number of all processes of the stack - the emulator, its functions, their sandboxes - while the block runs."""
    found = Peak()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(every_s):
            sizes = [size for process in processes(stack) if (size := taken_mb(process))]
            found.mb, found.processes = max(found.mb, sum(sizes)), max(found.processes, len(sizes))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def processes(stack: Stack) -> list[int]:
    """The emulator and all that descends from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
            children.setdefault(parent, []).append(int(entry.name))
    assert stack.pid is not None
    found = [stack.pid]
    for process in found:  # grows as it goes
        found += children.get(process, [])
    return found


def taken_mb(process: int) -> float:
    """What a process takes, with its part of what it shares with others; 0 when it is gone."""
    try:
        sizes = Path(f"/proc/{process}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in sizes.splitlines() if line.startswith("Pss:")), 0.0)
