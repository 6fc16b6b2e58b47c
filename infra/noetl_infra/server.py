"""The HTTP server of the embedded stack: uvicorn, with httptools and uvloop.

MiniStack (1.5.33) is an ASGI application that serves all requests in one thread. Its own server, hypercorn, parses HTTP in
Python (h11), which took a third of that thread's time (`python bench/floor.py`).
"""

from __future__ import annotations

import os
import resource

import uvicorn

from noetl_infra.throttle import App

KEEP_ALIVE_S = 75
"""Seconds for which an idle connection is kept, as MiniStack's own server keeps it."""
SHUTDOWN_S = 1
"""Seconds that requests in progress may take when the stack is stopped."""


def serve(app: App) -> None:
    """Serve MiniStack's application at `BIND_HOST` and `GATEWAY_PORT` until a signal ends it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each connection and each function's process has some
    uvicorn.run(
        app,
        host=os.environ["BIND_HOST"],
        port=int(os.environ["GATEWAY_PORT"]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,  # the application sends what AWS sends
        date_header=False,
        access_log=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
