"""The cases of `quantum`. Amazon Braket's simulator, which is too large to be installed everywhere, has tests of its own."""

from __future__ import annotations

from typing import Any

from tests.matrix.cases import Case

leaves_out = {"rights": "its backends are simulators: it reaches nothing in AWS"}
BELL = 'OPENQASM 2.0; include "qelib1.inc"; qreg q[2]; creg c[2]; h q[0]; cx q[0], q[1]; measure q -> c;'
ALL = "OPENQASM 2.0; qreg q[{0}]; " + "h q; " * 9


def _job(action: str) -> dict[str, Any]:
    return {"action": action, "job_id": "{{ submit.job_id }}"}


CASES = [
    Case("run", {"circuit": BELL, "shots": 10}, gives={"{{ _prev.probabilities }}": {"00": 0.5, "11": 0.5}}),
    Case(
        "gates",
        {"circuit": {"qubits": 1, "gates": [{"gate": "rx", "qubits": [0], "angles": ["theta"]}]}, "params": {"theta": 0}},
        gives={"{{ _prev.counts }}": {"0": 1024}},
    ),
    Case("submit", {"action": "submit", "circuit": BELL, "seed": 1}, gives={"{{ _prev.status }}": "completed"}),
    Case("status", _job("status"), gives={"{{ _prev.status }}": "completed"}),
    Case("fetched", _job("result"), gives={"{{ [_prev.shots, _prev.seed] }}": [1024, "1"]}),
    Case("no_gate", {"circuit": "qreg q[1]; nowhere q;"}, "errors", fails="schema", retryable=False, says="unknown"),
    Case("no_backend", {"circuit": BELL, "backend": "mars"}, "errors", fails="unsupported", retryable=False),
    Case("no_job", {"action": "result", "job_id": "none"}, "errors", fails="not_found", retryable=False),
    Case("slow", {"circuit": ALL.format(16), "spec": {"timeout": 0.1}}, "timeout", fails="timeout", retryable=False),
    Case(
        "large",
        {"circuit": "qreg q[12]; h q;", "shots": 1},
        "large result",
        gives={"{{ _prev.probabilities | length }}": 4096},
    ),
    Case("secret", {"circuit": BELL, "seed": "{{ keychain.matrix.token }}"}, "secret", gives={"{{ _prev.seed }}": "***"}),
]
