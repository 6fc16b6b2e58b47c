"""`kind: quantum`: known circuits, jobs, and circuits that are none."""

from __future__ import annotations

import math

import pytest

from .conftest import Run

BELL = """
OPENQASM 2.0;
include "qelib1.inc";
qreg q[2]; creg c[2];
h q[0]; cx q[0],q[1];  // entangle
measure q -> c;
"""


def probabilities(run: Run, circuit: object, **inputs: object) -> dict[str, float]:
    outcome = run("quantum", {"circuit": circuit, **inputs})
    assert outcome.error is None, outcome.error
    return outcome.result["probabilities"]


def test_a_bell_pair_is_read_alike(run: Run) -> None:
    result = run("quantum", {"circuit": BELL, "shots": 1000}).result
    assert result["probabilities"] == {"00": 0.5, "11": 0.5} and sum(result["counts"].values()) == 1000
    assert set(result["counts"]) == {"00", "11"} and abs(result["counts"]["00"] - 500) < 100


def test_the_same_task_run_draws_the_same_shots(run: Run) -> None:
    first = run("quantum", {"circuit": BELL}).result["counts"]
    assert first == run("quantum", {"circuit": BELL}, attempt=2).result["counts"]
    assert first != run("quantum", {"circuit": BELL}, task_run_id="another").result["counts"]
    assert (
        run("quantum", {"circuit": BELL, "seed": 7}).result
        == run("quantum", {"circuit": BELL, "seed": 7}, task_run_id="b").result
    )


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        pytest.param([("x", [0])], {"01": 1.0}, id="x; qubit 0 is written last"),
        pytest.param([("h", [0]), ("z", [0]), ("h", [0])], {"01": 1.0}, id="phase turned into a flip"),
        pytest.param([("x", [0]), ("swap", [0, 1])], {"10": 1.0}, id="swap"),
        pytest.param([("h", [0]), ("s", [0]), ("s", [0]), ("h", [0])], {"01": 1.0}, id="s s = z"),
        pytest.param([("h", [0]), ("t", [0]), ("tdg", [0]), ("h", [0])], {"00": 1.0}, id="t undone"),
        pytest.param([("rx", [0], ["pi"]), ("ry", [1], ["2 * pi / 2"])], {"11": 1.0}, id="half turns"),
        pytest.param([("x", [0]), ("cz", [0, 1]), ("cx", [0, 1])], {"11": 1.0}, id="controlled"),
        pytest.param([("u3", [0], [math.pi, 0, math.pi])], {"01": 1.0}, id="u3 as x"),
    ],
)
def test_gates(run: Run, gates: list, expected: dict) -> None:
    listed = [{"gate": g[0], "qubits": g[1], "angles": g[2] if len(g) > 2 else []} for g in gates]
    assert probabilities(run, {"qubits": 2, "gates": listed}) == expected


def test_toffoli_and_registers(run: Run) -> None:
    circuit = "qreg a[2]; qreg b[1]; creg out[1]; x a; ccx a[0],a[1],b[0]; measure b -> out;"
    assert probabilities(run, circuit) == {"1": 1.0}


def test_parameters_make_a_sweep(run: Run) -> None:
    circuit = "qreg q[1]; ry(theta) q[0];"
    assert probabilities(run, circuit, params={"theta": math.pi / 2}) == {"0": 0.5, "1": 0.5}
    assert probabilities(run, "qreg q[1]; ry(2*(theta-pi)) q;", params={"theta": math.pi}) == {"0": 1.0}


def test_a_job_is_submitted_polled_and_fetched(run: Run) -> None:
    job = run("quantum", {"action": "submit", "circuit": BELL}).result
    assert run("quantum", {"action": "status", "job_id": job["job_id"]}).result["status"] == "completed"
    assert run("quantum", {"action": "result", "job_id": job["job_id"]}).result["probabilities"] == {"00": 0.5, "11": 0.5}
    assert run("quantum", {"action": "result", "job_id": "other"}).error.kind == "not_found"
    assert run("quantum", {"action": "result", "job_id": job["job_id"]}, execution_id="2").error.kind == "not_found"


@pytest.mark.parametrize(
    "inputs",
    [
        {"circuit": "qreg q[17];"},
        {"circuit": "qreg q[0];"},
        {"circuit": ""},
        {"circuit": "qreg q[2]; warp q[0];"},
        {"circuit": "qreg q[2]; x q[2];"},
        {"circuit": "qreg q[2]; x p[0];"},
        {"circuit": "qreg q[2]; cx q[0],q[0];"},
        {"circuit": "qreg q[1]; rx q[0];"},
        {"circuit": "qreg q[1]; rx(__import__('os')) q[0];"},
        {"circuit": "qreg q[1]; rx(9**9**9) q[0];"},
        {"circuit": "qreg q[1]; rx(1/0) q[0];"},
        {"circuit": "qreg q[1]; rx(theta) q[0];"},
        {"circuit": {"qubits": 10**9, "gates": []}},
        {"circuit": {"qubits": 1, "gates": [{"gate": "x", "qubits": [0]}] * 10_001}},
        {"circuit": {"qubits": 1, "gates": ["x"]}},
        {"circuit": 5},
        {"circuit": BELL, "shots": 0},
        {"circuit": BELL, "shots": 10**9},
        {"circuit": BELL, "action": "teleport"},
        {"action": "status", "job_id": "../x"},
    ],
)
def test_what_is_no_circuit_is_refused(run: Run, inputs: dict) -> None:
    assert run("quantum", inputs).error.kind == "schema"


def test_a_long_circuit_ends_with_the_time_and_other_backends_are_unsupported(run: Run) -> None:
    gates = [{"gate": "h", "qubits": [0]}] * 5_000
    assert run("quantum", {"circuit": {"qubits": 16, "gates": gates}}, timeout_s=0.3).error.kind == "timeout"
    assert run("quantum", {"circuit": BELL, "backend": "ibm"}).error.kind == "unsupported"
