"""`kind: quantum`: circuits on a backend (formal specification 12). `simulator` is an exact state vector of up to 16 qubits
and needs nothing else; `braket` is Amazon Braket's local simulator for up to 20 qubits, which also reads OpenQASM 3.

`action: run` (default) gives the counts. As with a real backend, a job may also be submitted, polled and fetched: `submit`
gives `{job_id, status}`; `status` and `result` take the `job_id`. A job is an object of the execution, so any later task may
ask for it. The shots are drawn with a seed derived from the task run (or with `seed`), so a repetition gives the same counts.
The shots of OpenQASM 3 are drawn by the simulator, and differ each time.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from hashlib import sha256
from typing import Any, Final

from noetl_core.engine.outcome import ErrorKind, Outcome
from noetl_core.ports import NotFound
from noetl_core.tools.base import BadInput, ToolCall
from noetl_quantum import braket
from noetl_quantum.circuit import MAX_QUBITS, BadCircuit, circuit_of, outcomes, simulate

MAX_SHOTS: Final = 1_000_000
DEFAULT_SHOTS: Final = 1024
DEFAULT_TIMEOUT_S: Final = 300.0
BACKENDS: Final = ("simulator", "braket")


class _Stopped(Exception):
    """Time is up, or the call was cancelled."""


class QuantumTool:
    """Inputs `circuit`, `params`, `shots`, `seed`, `backend`, `action`: run | submit | status | result, `job_id`."""

    kind = "quantum"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        backend = call.inputs.get("backend", "simulator")
        if backend not in BACKENDS:
            message = f"quantum: there is no backend {str(backend)[:60]!r} here: {' or '.join(BACKENDS)}"
            return Outcome.failed("unsupported", message, retryable=False)
        action = call.inputs.get("action", "run")
        if action in ("status", "result"):
            return self._fetch(call, action, backend)
        if action not in ("run", "submit"):
            raise BadInput(f"`action` {str(action)[:20]!r} is unknown: run, submit, status or result")
        try:
            result = _counts(call, backend)
        except BadCircuit as error:
            raise BadInput(str(error)) from error
        except braket.NotInstalled as error:
            return Outcome.failed("unsupported", f"quantum: {error}", retryable=False)
        except _Stopped:
            kind: ErrorKind = "cancelled" if call.cancelled.is_set() else "timeout"
            return Outcome.failed(kind, f"quantum: {kind} in the middle of the circuit", retryable=False)
        return Outcome.ok(result) if action == "run" else self._submit(call, result, backend)

    def _submit(self, call: ToolCall, result: dict[str, Any], backend: str) -> Outcome:
        if call.results is None:
            return Outcome.failed("storage", "quantum: this worker has no result store", retryable=False)
        job = sha256(f"{call.execution_id}/{call.task_run_id}".encode()).hexdigest()[:24]
        call.results.put(_key(call, job), json.dumps(result).encode())
        return Outcome.ok({"job_id": job, "status": "completed", "backend": backend})

    def _fetch(self, call: ToolCall, action: str, backend: str) -> Outcome:
        job = call.inputs.get("job_id")
        if not isinstance(job, str) or not job.isalnum() or len(job) > 64:
            raise BadInput("`job_id` must be the job_id that submit returned")
        try:
            body = call.results.get(_key(call, job)) if call.results is not None else None
        except NotFound:
            body = None
        if body is None:
            return Outcome.failed("not_found", f"quantum: this execution has no job {job}", retryable=False)
        return Outcome.ok(json.loads(body) if action == "result" else {"job_id": job, "status": "completed", "backend": backend})


def _key(call: ToolCall, job: str) -> str:
    return f"{call.execution_id}/quantum/{job}.json"


def _counts(call: ToolCall, backend: str) -> dict[str, Any]:
    shots = call.inputs.get("shots", DEFAULT_SHOTS)
    if isinstance(shots, bool) or not isinstance(shots, int) or not 1 <= shots <= MAX_SHOTS:
        raise BadInput(f"`shots` must be a number from 1 to {MAX_SHOTS}")
    params = call.inputs.get("params") or {}
    if not isinstance(params, dict):
        raise BadInput("`params` must be a mapping")
    deadline = time.monotonic() + (DEFAULT_TIMEOUT_S if call.timeout_s is None else call.timeout_s)

    def go_on() -> None:
        if call.cancelled.is_set() or time.monotonic() > deadline:
            raise _Stopped

    source = call.inputs.get("circuit")
    if backend == "braket" and braket.is_openqasm_3(source):
        if "seed" in call.inputs:
            raise BadInput("`seed` cannot be combined with OpenQASM 3: Amazon Braket's simulator draws other shots in each run")
        counts, qubits = braket.counts(source, params, shots)
        return {"counts": counts, "shots": shots, "qubits": qubits, "backend": backend}
    limit = braket.MAX_QUBITS if backend == "braket" else MAX_QUBITS
    circuit = circuit_of(source, params, limit)
    probabilities = outcomes(circuit, braket.probabilities(circuit) if backend == "braket" else simulate(circuit, go_on))
    seed = call.inputs.get("seed", call.task_run_id)
    drawn = random.Random(str(seed)).choices(list(probabilities), list(probabilities.values()), k=shots)
    return {
        "counts": dict(sorted(Counter(drawn).items())),
        "probabilities": {reading: round(probability, 12) for reading, probability in probabilities.items()},
        "shots": shots,
        "qubits": circuit.qubits,
        "gates": len(circuit.gates),
        "seed": str(seed),
        "backend": backend,
    }
