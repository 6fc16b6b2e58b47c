"""Measures the language server: the time from a keystroke to its findings, and that of each request. Run: `python -m bench.lsp`.

The server is a process of its own, as an editor starts it, and is asked over its protocol. Each keystroke changes the text, so
that no answer is a repetition.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.validate import large
from tests.unit.lsp.client import Client

URI: Final = "file:///nowhere/large.yaml"
STEPS: Final = {400: 20, 4000: 201}
"""The number of steps of a playbook by its lines."""
ROUNDS: Final = 21


def measured(lines: int, rounds: int = ROUNDS) -> dict[str, tuple[float, float, float]]:
    """Return median and worst time of each request in milliseconds, and the mean of the server's processor time, on a playbook of
    about `lines` lines."""
    command = [sys.executable, "-m", "noetl_cli.main", "lsp"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        client = Client(process.stdin, process.stdout)
        client.initialize()
        text = large(STEPS[lines])
        client.open(text, URI)
        assert client.found(URI) == []
        times: dict[str, list[float]] = {}
        processor: dict[str, float] = {}
        for n in range(rounds):
            for name, run in _requests(client, text, n).items():
                begun, used = time.perf_counter(), _processor_ms(process.pid)
                assert run() is not None, name
                times.setdefault(name, []).append((time.perf_counter() - begun) * 1000)
                processor[name] = processor.get(name, 0.0) + (_processor_ms(process.pid) - used if n else 0.0)
                client.found(URI)  # leaves nothing to the next one
        client.ask("shutdown", None)
        client.notify("exit", None)
        process.wait(20)
    finally:
        process.kill()
    return {name: (statistics.median(some[1:]), max(some[1:]), processor[name] / (rounds - 1)) for name, some in times.items()}


def _processor_ms(process: int) -> float:
    """Return the processor time of all threads of a process (Linux)."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e6


def _requests(client: Client, text: str, n: int) -> dict[str, Callable[[], Any]]:
    """Return the requests of one round. Each asks about a text that the server has not seen."""

    def asking(method: str, word: str, **more: Any) -> Callable[[], Any]:
        """Change a template and the name in the middle of the text; then ask about a word there."""

        def ask() -> Any:
            head, tail = text[: len(text) // 2], text[len(text) // 2 :]
            head = head.replace("path: bench/large", f"path: bench/{method}_{n}")
            changed = head + tail.replace("workload.limit + ", f"workload.limit + {n}", 1)
            client.change(changed, URI)
            return (
                client.at(method, changed.index(word, len(head)) + len(word), changed, URI, **more) if word else client.found(URI)
            )

        return ask

    document = {"textDocument": {"uri": URI}}
    return {
        "findings": asking("findings", ""),
        "completion": asking("completion", "workload."),
        "hover": asking("hover", "workload.li"),
        "definition": asking("definition", "workload.li"),
        "references": asking("references", "- step: s", context={"includeDeclaration": True}),
        "rename": asking("rename", "- step: s", newName=f"renamed_{n}"),
        "symbols": lambda: client.ask("textDocument/documentSymbol", document),
        "formatting": lambda: client.ask(
            "textDocument/formatting", {**document, "options": {"tabSize": 2, "insertSpaces": True}}
        ),
    }


def table(rounds: int = ROUNDS) -> str:
    """Return the table of docs/editors.md."""
    found = {lines: measured(lines, rounds) for lines in STEPS}
    rows = ["| ms: processor, median (worst) | 400 lines | 4,000 lines |", "|---|---|---|"]
    for name in found[400]:
        cells = ("{2:.0f}, {0:.0f} ({1:.0f})".format(*found[lines][name]) for lines in STEPS)
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    print(table())


if __name__ == "__main__":
    main()
