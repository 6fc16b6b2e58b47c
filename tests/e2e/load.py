"""Many concurrent clients of the embedded stack."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.support import Api

TRIES = 120
"""The number of retries after which a client's start counts as refused."""


@dataclass
class Answers:
    """The answers to clients: every status, and the accepted executions."""

    statuses: Counter[int] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


def starts(api: Api, body: dict[str, Any], *, count: int, clients: int, patience_s: float = 60) -> Answers:
    """Make `count` starts of `body` by `clients` concurrent clients, which retry a 429 after `Retry-After`."""
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
