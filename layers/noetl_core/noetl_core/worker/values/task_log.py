"""The standard output and standard error of a task. Its event records the end of each inline, and more behind a reference."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from noetl_core.ports import ResultStore

TAIL = 4_096
"""Characters of each stream that go into the event."""
KEPT = 1_048_576
"""The most characters of each stream that are kept: the last."""


class _Stream:
    """The last `KEPT` characters of a stream, line by line."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self.size = 0
        self.dropped = 0

    def add(self, line: str) -> None:
        line = line[-KEPT:].encode("utf-8", "replace").decode()
        self.lines.append(line)
        self.size += len(line) + 1
        while self.size > KEPT and len(self.lines) > 1:
            gone = len(self.lines.popleft()) + 1
            self.size -= gone
            self.dropped += gone

    def end(self) -> str:
        """Return the last `TAIL` characters, with a line break after each line."""
        found: list[str] = []
        left = TAIL
        for line in reversed(self.lines):
            found.append(f"{line}\n"[-left:])
            left -= len(found[-1])
            if left <= 0:
                break
        return "".join(reversed(found))

    def text(self) -> str:
        return "\n".join(self.lines)


class TaskLog:
    """`ToolCall.log` of one attempt. One thread at a time writes it; another may read its end meanwhile, unless it is `hidden`:
    then the secrets in it are known only when the attempt has ended."""

    def __init__(self, *, hidden: bool = False) -> None:
        self.hidden = hidden
        self._streams: dict[str, _Stream] = {}
        self._lock = Lock()

    def __call__(self, line: str, stream: str = "stdout") -> None:
        with self._lock:
            self._streams.setdefault(stream, _Stream()).add(line)

    def written(self) -> dict[str, int]:
        """Return how many characters were written to each stream."""
        with self._lock:
            return {name: stream.size + stream.dropped for name, stream in self._streams.items()}

    def ends(self) -> dict[str, str]:
        """Return the end of each stream."""
        with self._lock:
            return {name: stream.end() for name, stream in self._streams.items()}

    def __bool__(self) -> bool:
        return bool(self._streams)

    def rewritten(self, rewrite: Callable[[str], str]) -> TaskLog:
        """Return the log with each line rewritten."""
        log = TaskLog()
        for name, stream in self._streams.items():
            for line in stream.lines:
                log(rewrite(line), name)
        return log

    def record(self, results: ResultStore, key: str) -> Mapping[str, Any]:
        """Return `{stdout, stderr}` with the end of each stream. If there is more, `more` refers to an object `{stdout,
        stderr}`.

        `dropped` counts the characters that were not kept.
        """
        texts = {name: stream.text() for name, stream in self._streams.items()}
        out: dict[str, Any] = {name: text[-TAIL:] for name, text in texts.items()}
        dropped = sum(stream.dropped for stream in self._streams.values())
        if dropped:
            out["dropped"] = dropped
        if any(len(text) > TAIL for text in texts.values()):
            out["more"] = dict(results.put(key, json.dumps(texts, ensure_ascii=False).encode()))
        return out
