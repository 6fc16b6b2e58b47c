"""Measures the validation of a large playbook, lint included: under a second for a thousand steps. Run: `python
bench/validate.py`.

Measured are the whole process (`noetl validate FILE`), reading alone, and lint alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

HEAD: Final = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: large, path: bench/large }\n"
WORKLOAD: Final = "workload: { base: https://api.example.org, limit: 10 }\n"
STEP: Final = """  - step: s{i}
    tool:
      - name: fetch
        kind: http
        url: "{{{{ workload.base }}}}/items/{i}"
        params: {{ limit: "{{{{ workload.limit + {i} }}}}" }}
        spec:
          policy:
            rules:
              - when: "{{{{ outcome.status == 'error' and outcome.http.status == {i} }}}}"
                then: {{ do: retry, attempts: 3, delay: 1 }}
              - when: "{{{{ outcome.status == 'error' }}}}"
                then: {{ do: fail }}
              - else: {{ then: {{ do: continue, set_ctx: {{ n{i}: "{{{{ outcome.result.data.n{i} }}}}" }} }} }}
"""
NEXT: Final = """    next:
      arcs:
        - step: s{j}
          when: "{{{{ event.name == 'step.done' and ctx.n{i} != {i} }}}}"
"""


def large(steps: int) -> str:
    """A chain of HTTP steps with five templates each that no other step has."""
    parts = [STEP.format(i=i) + (NEXT.format(i=i, j=i + 1) if i + 1 < steps else "") for i in range(steps)]
    return HEAD + WORKLOAD + "workflow:\n" + "".join(parts)


def _best_ms(run: Callable[[], object], rounds: int = 5) -> float:
    """The shortest of some rounds: what else the machine does only makes them longer."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times) * 1000


def main() -> None:
    from noetl_core.dsl.parse import check, parse_playbook

    text = large(1000)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "large.yaml")
        file.write_text(text)
        command = [sys.executable, "-m", "noetl_cli.main", "validate", str(file)]
        whole = _best_ms(lambda: subprocess.run(command, check=True, capture_output=True))
    # Each round adds a comment: templates compiled in an earlier round would cost nothing.
    reading = _best_ms(lambda: parse_playbook(_other(text)))
    linted = _best_ms(lambda: check(_other(text)))
    print(f"1,000 steps, {len(text) // 1024} KB, 5,000 different templates")
    print(f"  whole process   {whole:7.0f} ms  (budget 1,000)")
    print(f"  reading         {reading:7.0f} ms")
    print(f"  lint            {max(0.0, linted - reading):7.0f} ms")


_ROUND = iter(range(1000))


def _other(text: str) -> str:
    """The same playbook with other templates."""
    return text.replace("}}", " " * (1 + next(_ROUND)) + "}}")


if __name__ == "__main__":
    main()
