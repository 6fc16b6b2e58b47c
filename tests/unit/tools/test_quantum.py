"""`kind: quantum`: known circuits, jobs, and circuits that are none."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from noetl_core.tools.registry import ToolRegistry
from noetl_quantum import QuantumTool
from tests.examples_runner import run_example

from .conftest import Run, kind

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
    return dict(outcome.result["probabilities"])


def test_the_kind_comes_from_the_plugin_by_its_entry_point() -> None:
    assert type(ToolRegistry().get("quantum")) is QuantumTool


def test_every_notation_of_a_bell_pair_gives_its_probabilities(run: Run) -> None:
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
def test_gates(run: Run, gates: list[Any], expected: dict[str, Any]) -> None:
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
    assert kind(run("quantum", {"action": "result", "job_id": "other"})) == "not_found"
    assert kind(run("quantum", {"action": "result", "job_id": job["job_id"]}, execution_id="2")) == "not_found"


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
def test_invalid_circuits_and_options_are_refused(run: Run, inputs: dict[str, Any]) -> None:
    assert kind(run("quantum", inputs)) == "schema"


def test_a_long_circuit_ends_with_the_time_and_other_backends_are_unsupported(run: Run) -> None:
    gates = [{"gate": "h", "qubits": [0]}] * 5_000
    assert kind(run("quantum", {"circuit": {"qubits": 16, "gates": gates}}, timeout_s=0.3)) == "timeout"
    assert kind(run("quantum", {"circuit": BELL, "backend": "ibm"})) == "unsupported"


@pytest.mark.parametrize(
    ("circuit", "why"),
    [
        ('OPENQASM 3; include "/etc/passwd"; qubit q;', "files are not read"),
        ('OPENQASM 3; include "stdgates.inc/../x"; qubit q;', "files are not read"),
        ("// first\nOPENQASM 3.0; qubit q; while (true) { x q; }", "cannot be stopped"),
        ("OPENQASM 3; const int n = 99; qubit[n] q;", "written out"),
        ("OPENQASM 3; qubit[12] a; qubit[9] b;", "has 21"),
        ("OPENQASM 3; bit c;", "has 0"),
    ],
)
def test_openqasm_3_is_refused_before_it_reaches_amazons_simulator(run: Run, circuit: str, why: str) -> None:
    error = run("quantum", {"circuit": circuit, "backend": "braket"}).error
    assert error is not None and error.kind == "schema" and why in error.message


def test_a_missing_braket_simulator_names_the_distribution_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "braket", None)
    monkeypatch.setitem(sys.modules, "braket.default_simulator", None)
    error = run("quantum", {"circuit": BELL, "backend": "braket"}).error
    assert error is not None and error.kind == "unsupported" and "noetl-quantum[braket]" in error.message


@pytest.mark.braket
class TestBraket:
    """Amazon Braket's local simulator: `make braket` installs it beside the project."""

    CIRCUITS = (
        BELL,
        "qreg q[3]; creg c[2]; h q[0]; ry(0.3) q[2]; ccx q[0],q[2],q[1]; u3(0.1,0.2,0.3) q[1]; sdg q[0]; swap q[0],q[2]; measure q[0] -> c[1]; measure q[2] -> c[0];",
        "qreg a[2]; qreg b[1]; crz(0.7) a[0],b[0]; h a; ch a[1],b[0]; cp(pi/3) a[0],a[1]; t b; h b;",
        {"qubits": 4, "gates": [{"gate": "h", "qubits": [2]}, {"gate": "cy", "qubits": [2, 0]}]},
    )

    @pytest.mark.parametrize("circuit", CIRCUITS, ids=range(len(CIRCUITS)))
    def test_braket_gives_the_probabilities_of_the_built_in_simulator(self, run: Run, circuit: object) -> None:
        mine = run("quantum", {"circuit": circuit, "seed": 1}).result
        theirs = run("quantum", {"circuit": circuit, "seed": 1, "backend": "braket"}).result
        assert theirs["backend"] == "braket" and theirs["probabilities"] == pytest.approx(mine["probabilities"], abs=1e-9)
        assert theirs["counts"].keys() == mine["counts"].keys()

    def test_braket_reads_openqasm_3_with_standard_gates_and_parameters(self, run: Run) -> None:
        circuit = """
        OPENQASM 3.0; include "stdgates.inc"; input float theta;
        qubit[2] q; bit[3] c;
        ry(theta) q[0]; cx q[0], q[1]; sdg q[0]; x q[0];
        c[0] = measure q[0]; c[1] = measure q[1];
        """
        result = run("quantum", {"circuit": circuit, "params": {"theta": math.pi}, "shots": 50, "backend": "braket"}).result
        assert (result["counts"], result["shots"], result["qubits"]) == ({"10": 50}, 50, 2)

    @pytest.mark.parametrize(
        "circuit", ["OPENQASM 3; qubit q; warp q;", "OPENQASM 3; qubit q h q;", "OPENQASM 3; input float t; qubit q; rx(t) q;"]
    )
    def test_a_circuit_that_braket_refuses_is_a_schema_error(self, run: Run, circuit: str) -> None:
        assert kind(run("quantum", {"circuit": circuit, "backend": "braket"})) == "schema"

    def test_a_job_is_submitted_to_braket_and_fetched(self, run: Run) -> None:
        job = run("quantum", {"action": "submit", "circuit": BELL, "backend": "braket"}).result
        assert job["backend"] == "braket"
        assert run("quantum", {"action": "result", "job_id": job["job_id"]}).result["probabilities"] == {"00": 0.5, "11": 0.5}

    def test_the_example_runs_on_braket(self, tmp_path: Path) -> None:
        assert run_example("quantum", tmp_path / "log.sqlite", {"backend": "braket"}).result == [0, 0.25, 0.5, 1]
