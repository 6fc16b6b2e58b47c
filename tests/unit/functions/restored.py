"""A program: a function whose process was snapshot after its import and restored twice, as Lambda SnapStart does it.

`python -m tests.unit.functions.restored FUNCTION`, with an event on standard input. The snapshot is this process, the environments that
are restored from it are its children; the second is restored a day later. Each prints what it would draw, and handles the event.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from types import ModuleType
from typing import Any

FUNCTION, EVENT = sys.argv[1], json.loads(sys.stdin.read())
ROOT = os.path.abspath(f"{__file__}/../../../..")
DAY_S = 86_400
before: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
after: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
runtime: Any = ModuleType("snapshot_restore_py")
runtime.register_before_snapshot = lambda call, *args: before.append((call, args))
runtime.register_after_restore = lambda call, *args: after.append((call, args))
sys.modules["snapshot_restore_py"] = runtime


def sockets() -> int:
    """Connections that this process has. (X-Ray's socket has none: it sends datagrams.)"""
    with open("/proc/net/tcp") as table:
        inodes = {line.split()[9] for line in table.read().splitlines()[1:]}
    mine = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]
    return sum(name.removeprefix("socket:[").removesuffix("]") in inodes for name in mine)


def alive(kind: type) -> int:
    """Objects of a class that something holds."""
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


class Context:
    function_name, memory_limit_in_mb, aws_request_id = "f", 512, "r"
    invoked_function_arn = "arn:aws:lambda:us-east-1:1:function:f:live"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


sys.path.insert(0, f"{ROOT}/functions/{FUNCTION}")
import app  # type: ignore[import-not-found]  # noqa: E402 - once its folder is on the path, and the hooks are there to register with
from botocore.client import BaseClient  # noqa: E402 - once the hooks are there, as all that follows
from botocore.session import Session  # noqa: E402 - once the hooks are there

from noetl_core.adapters.clock import SystemClock  # noqa: E402 - as the function

for call, args in reversed(before):
    call(*args)
kept = {
    "sockets": sockets(),
    "clients": alive(BaseClient),
    "sessions": alive(Session),
    "hooks": [len(before), len(after)],
}
sys.stdout.write(json.dumps(kept) + "\n")
sys.stdout.flush()
real, pid, generator = time.time_ns, os.getpid(), random.getstate()
for n in range(2):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    time.time_ns = lambda n=n: real() + n * DAY_S * 10**9  # type: ignore[misc]  # a clock of the fork's own
    os.getpid = lambda: pid  # a snapshot keeps what a fork renews
    random.setstate(generator)
    for call, args in after:
        call(*args)
    drawn = [SystemClock().nonce(), str(uuid.uuid4()), repr(random.random())]
    answer = app.handler(EVENT, Context())
    sys.stdout.write(json.dumps({"drawn": drawn, "answer": answer, "now": SystemClock().now()}) + "\n")
    sys.stdout.flush()
    os._exit(0)
