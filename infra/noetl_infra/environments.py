"""Execution environments of MiniStack's functions: a failing one must not end the others.

MiniStack (1.5.33) keeps a pool of processes per function (`ministack.core.lambda_runtime`). When one cannot be started, for
example because it was killed during its start, `lambda_svc._execute_function_warm` calls `invalidate_worker`. That ends
*all* processes of the function, including working ones, and removes the folder of each, including one that another thread is
unpacking. That thread then fails too (`FileNotFoundError: .../code`, `No module named 'app'`) and ends all others again:
under load, a single lost process can keep this going for minutes. A process that was ended during its start is no longer in any
pool, and never ends.

The remedy upstream would be to end only the failed process. Here the same is achieved from outside: no failure of one environment
leaves `Worker.invoke` as an exception, so `invalidate_worker` is called only for deployments, for which it is intended.
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("lambda_runtime")

STARTS = 2
"""The most attempts to start an environment before the invocation fails. Until then nothing has reached the function."""


def contain(runtime: Any) -> None:
    """Patch `runtime` (`ministack.core.lambda_runtime`) so that a failing environment ends no others."""
    spawn, invoke = runtime.Worker._spawn, runtime.Worker.invoke

    def started(worker: Any) -> None:
        for attempt in range(1, STARTS + 1):
            try:
                spawn(worker)
                return
            except (OSError, RuntimeError, AttributeError) as error:  # AttributeError: it was ended meanwhile and has no process
                runtime.kill_workers([worker])
                if attempt == STARTS:
                    raise
                logger.warning("an environment of %s did not start, and is started again: %s", worker.func_name, error)

    def invoked(worker: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return invoke(worker, *args, **kwargs)
        except Exception as error:  # a failure of this environment only: the next invocation starts it again
            logger.warning("an environment of %s failed: %s: %s", worker.func_name, type(error).__name__, error)
            runtime.kill_workers([worker])
            return {"status": "error", "error": f"{type(error).__name__}: {error}", "cold_start": True, "log": ""}
        finally:
            if not _pooled(runtime, worker):  # a deployment ended it while it started: nobody would use or end it
                runtime.kill_workers([worker])

    runtime.Worker._spawn, runtime.Worker.invoke = started, invoked


def _pooled(runtime: Any, worker: Any) -> bool:
    with runtime._lock:
        return any(worker in pool for pool in runtime._workers.values())
