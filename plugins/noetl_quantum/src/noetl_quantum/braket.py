"""Circuits on Amazon Braket's local state-vector simulator, the distribution `amazon-braket-default-simulator` (extra
`braket`).

Circuits in the forms that `circuit` reads are passed gate by gate, and their exact probabilities are returned. OpenQASM 3 is
passed as it is written: the simulator draws the shots itself, as a real machine does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from itertools import product
from typing import Any, Final, TypeGuard

from noetl_quantum.circuit import BadCircuit, Circuit, Gate

MAX_QUBITS: Final = 20
"""A state of 20 qubits is 16 MB, which one simulation holds some times over."""
REFUSED: Final = {
    "include": "files are not read",
    "while": "a loop without end cannot be stopped",
    "extern": "there are no external functions",
}
"""Words of OpenQASM 3 that are not taken, and why."""
_OPENQASM_3 = re.compile(r"\s*(?://[^\n]*\n\s*)*OPENQASM\s+3")
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUBITS = re.compile(r"\bqubit\b\s*(?:\[\s*([^\]]*?)\s*\])?")
_STANDARD_GATES = re.compile(r"\binclude\s*\"(?:stdgates\.inc|qelib1\.inc)\"\s*;")
_BY_OTHER_NAMES = """
gate id a { i a; } gate sdg a { si a; } gate tdg a { ti a; } gate p(turn) a { phaseshift(turn) a; }
gate cx a, b { cnot a, b; } gate ccx a, b, c { ccnot a, b, c; }
"""
"""Gates of `stdgates.inc` that the simulator knows by other names. It has no such file."""


class NotInstalled(Exception):
    """Amazon Braket's simulator is not installed. Who acts: the operator, who deploys the plugin."""


def is_openqasm_3(source: Any) -> TypeGuard[str]:
    """Return whether a circuit is text in OpenQASM 3, which only this backend reads."""
    return isinstance(source, str) and _OPENQASM_3.match(source) is not None


def probabilities(circuit: Circuit) -> list[float]:
    """Return the probability of each basis state (qubit 0 is the lowest bit). Raises `NotInstalled`."""
    gates = "\n".join(_unitary(gate, circuit.qubits) for gate in circuit.gates)
    idle = "\n".join(f"i q[{n}];" for n in range(circuit.qubits))  # a qubit that no gate touches would not be counted
    source = f"OPENQASM 3;\nqubit[{circuit.qubits}] q;\n{idle}\n{gates}\n#pragma braket result probability all\n"
    return [float(p) for p in _run(source, {}, 0).resultTypes[0].value]


def counts(source: str, params: Mapping[str, Any], shots: int) -> tuple[dict[str, int], int]:
    """Return how often each reading occurred, and the number of qubits. Raises `BadCircuit`, `NotInstalled`."""
    text = _COMMENTS.sub(" ", source)
    text, included = _STANDARD_GATES.subn("", text)
    for word, why in REFUSED.items():
        if re.search(rf"\b{word}\b", text):
            raise BadCircuit(f"`{word}` is not supported: {why}")
    sizes = [size or "1" for size in _QUBITS.findall(text)]
    if not all(size.isdigit() and len(size) < 4 for size in sizes):
        raise BadCircuit("the number of qubits must be written out, as in qubit[2] q;")
    qubits = sum(map(int, sizes))
    if not 1 <= qubits <= MAX_QUBITS:
        raise BadCircuit(f"a circuit has 1 to {MAX_QUBITS} qubits, this one has {qubits}")
    if included:
        text = re.sub(r"(OPENQASM\s+3[^;]*;)", lambda version: version[1] + _BY_OTHER_NAMES, text, count=1)
    measured = _run(text, params, shots).measurements
    return dict(sorted(Counter("".join(reversed(reading)) for reading in measured).items())), qubits


def _unitary(gate: Gate, qubits: int) -> str:
    """Return a gate as its matrix. The simulator's first qubit is the highest bit, ours the lowest."""
    size = 1 << len(gate.controls) + 1
    a, b, c, d = gate.matrix
    corner = {(size - 2, size - 2): a, (size - 2, size - 1): b, (size - 1, size - 2): c, (size - 1, size - 1): d}
    flat = [corner.get((row, column), 1.0 if row == column else 0.0) for row, column in product(range(size), repeat=2)]
    written = [_number(complex(value)) for value in flat]
    rows = ", ".join(f"[{', '.join(written[n : n + size])}]" for n in range(0, size * size, size))
    targets = ", ".join(f"q[{qubits - 1 - n}]" for n in (*gate.controls, gate.target))
    return f"#pragma braket unitary([{rows}]) {targets}"


def _number(value: complex) -> str:
    return f"{value.real!r}{value.imag:+.17g}im"


def _run(source: str, params: Mapping[str, Any], shots: int) -> Any:
    try:
        simulator = import_module("braket.default_simulator").StateVectorSimulator()
        program = import_module("braket.ir.openqasm").Program
    except ModuleNotFoundError as error:
        raise NotInstalled(
            f"backend `braket` needs {error.name}, which the extra `braket` brings: install noetl-quantum[braket]"
        ) from error
    try:
        return simulator.run(program(source=source, inputs=dict(params) or None), shots=shots)
    except Exception as error:  # the simulator has no class of its own for a circuit that it does not take
        raise BadCircuit(
            f"Amazon Braket's simulator does not accept the circuit: {str(error)[:200] or type(error).__name__}"
        ) from error
