"""Quantum circuits: OpenQASM 2 (the standard gates) or a list of gates, and their exact simulation by state vector. Pure."""

from __future__ import annotations

import ast
import cmath
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_QUBITS: Final = 16
MAX_GATES: Final = 10_000
MAX_EXPRESSION: Final = 200

Matrix = tuple[complex, complex, complex, complex]
"""A one-qubit gate, row by row."""


class BadCircuit(ValueError):
    """The circuit cannot be understood. Who acts: the author."""


@dataclass(frozen=True, slots=True)
class Gate:
    """`matrix` on `target` where every qubit of `controls` is 1."""

    matrix: Matrix
    target: int
    controls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Circuit:
    """Gates in order; `measured` maps a classical bit to the qubit it is read from, at the end."""

    qubits: int
    gates: tuple[Gate, ...]
    measured: Mapping[int, int]


_R: Final = 1 / math.sqrt(2)


def _phase(angle: float) -> Matrix:
    return (1, 0, 0, cmath.exp(1j * angle))


def _u(theta: float, phi: float, lam: float) -> Matrix:
    c, s = math.cos(theta / 2), math.sin(theta / 2)
    return (c, -cmath.exp(1j * lam) * s, cmath.exp(1j * phi) * s, cmath.exp(1j * (phi + lam)) * c)


def _rz(angle: float) -> Matrix:
    return (cmath.exp(-0.5j * angle), 0, 0, cmath.exp(0.5j * angle))


def _rx(angle: float) -> Matrix:
    c, s = math.cos(angle / 2), math.sin(angle / 2)
    return (c, -1j * s, -1j * s, c)


_X: Final[Matrix] = (0, 1, 1, 0)
_GATES: Final[dict[str, tuple[int, Callable[..., Matrix]]]] = {
    "id": (0, lambda: (1, 0, 0, 1)),
    "x": (0, lambda: _X),
    "y": (0, lambda: (0, -1j, 1j, 0)),
    "z": (0, lambda: (1, 0, 0, -1)),
    "h": (0, lambda: (_R, _R, _R, -_R)),
    "s": (0, lambda: (1, 0, 0, 1j)),
    "sdg": (0, lambda: (1, 0, 0, -1j)),
    "t": (0, lambda: _phase(math.pi / 4)),
    "tdg": (0, lambda: _phase(-math.pi / 4)),
    "rx": (1, _rx),
    "ry": (1, lambda angle: _u(angle, 0, 0)),
    "rz": (1, _rz),
    "p": (1, _phase),
    "u1": (1, _phase),
    "u2": (2, lambda phi, lam: _u(math.pi / 2, phi, lam)),
    "u3": (3, _u),
    "u": (3, _u),
}
"""Name -> number of angles, and the matrix for them."""
_CONTROLLED: Final = {
    "cx": (1, "x"),
    "cy": (1, "y"),
    "cz": (1, "z"),
    "ch": (1, "h"),
    "cp": (1, "p"),
    "crz": (1, "rz"),
    "ccx": (2, "x"),
}


def circuit_of(source: Any, params: Mapping[str, Any], limit: int = MAX_QUBITS) -> Circuit:
    """The circuit of OpenQASM 2 text, or of `{qubits, gates: [{gate, qubits, angles}]}`, of up to `limit` qubits. Raises
    `BadCircuit`."""
    builder = _Builder(params, limit)
    if isinstance(source, str):
        _qasm(source, builder)
    elif isinstance(source, Mapping):
        _listed(source, builder)
    else:
        raise BadCircuit("a circuit is OpenQASM text or a mapping {qubits, gates}")
    return builder.done()


class _Builder:
    def __init__(self, params: Mapping[str, Any], limit: int) -> None:
        self.params, self.limit = params, limit
        self.registers: dict[str, tuple[int, int]] = {}
        self.classical: dict[str, tuple[int, int]] = {}
        self.qubits = self.bits = 0
        self._gates: list[Gate] = []
        self.measured: dict[int, int] = {}

    def add(self, name: str, angles: Sequence[float], qubits: Sequence[int]) -> None:
        if name == "swap" and len(qubits) == 2:
            a, b = qubits
            for pair in ((a, b), (b, a), (a, b)):
                self.add("cx", (), pair)
            return
        controls, base = _CONTROLLED.get(name, (0, name))
        if base not in _GATES:
            raise BadCircuit(f"gate {name[:20]!r} is unknown")
        count, matrix = _GATES[base]
        if len(angles) != count or len(qubits) != controls + 1:
            raise BadCircuit(f"gate {name} takes {count} angles and {controls + 1} qubits, not {len(angles)} and {len(qubits)}")
        if len(set(qubits)) != len(qubits) or not all(0 <= q < self.qubits for q in qubits):
            raise BadCircuit(f"gate {name} on qubits {list(qubits)}: there are {self.qubits}, each may be named once")
        if len(self._gates) >= MAX_GATES:
            raise BadCircuit(f"the circuit has more than {MAX_GATES} gates")
        self._gates.append(Gate(matrix(*angles), qubits[-1], tuple(qubits[:-1])))

    def done(self) -> Circuit:
        if not 1 <= self.qubits <= self.limit:
            raise BadCircuit(f"a circuit has 1 to {self.limit} qubits, this one has {self.qubits}")
        return Circuit(self.qubits, tuple(self._gates), self.measured or {n: n for n in range(self.qubits)})

    def angle(self, value: Any) -> float:
        """A number, or an expression of numbers, `pi` and the parameters."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise BadCircuit(f"{str(value)[:40]!r} is not an angle")
        found = _evaluate(value, self.params) if isinstance(value, str) else float(value)
        if not math.isfinite(found):
            raise BadCircuit(f"{str(value)[:40]!r} is not a finite angle")
        return found


_OPERATORS: Final[dict[type, Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _evaluate(text: str, params: Mapping[str, Any]) -> float:
    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return float(node.value)
        if isinstance(node, ast.Name):
            named = math.pi if node.id == "pi" else params.get(node.id)
            if isinstance(named, int | float) and not isinstance(named, bool):
                return float(named)
            raise BadCircuit(f"parameter {node.id!r} has no number: give it in `params`")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return -value(node.operand) if isinstance(node.op, ast.USub) else value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise BadCircuit(f"{text[:40]!r} is not an angle")

    try:
        if len(text) > MAX_EXPRESSION:
            raise BadCircuit(f"an angle has more than {MAX_EXPRESSION} characters")
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError) as error:
        raise error if isinstance(error, BadCircuit) else BadCircuit(f"{text[:40]!r} is not an angle") from error


_STATEMENT = re.compile(r"\s*([a-z][a-z0-9]*)\s*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?\s*([^;]*)")
_REGISTER = re.compile(r"([a-z][A-Za-z0-9_]*)\s*\[\s*([0-9]{1,6})\s*\]")


def _qasm(text: str, builder: _Builder) -> None:
    for statement in re.sub(r"//[^\n]*", "", text).split(";"):
        if not statement.strip() or statement.strip().startswith(("OPENQASM", "include", "barrier")):
            continue
        matched = _STATEMENT.fullmatch(statement.rstrip())
        if matched is None:
            raise BadCircuit(f"{statement.strip()[:60]!r} is not understood")
        name, angles, operands = matched.group(1), matched.group(2), matched.group(3).strip()
        if name in ("qreg", "creg"):
            _declare(name, operands, builder)
        elif name == "measure":
            _measure(operands, builder)
        else:
            values = [builder.angle(part) for part in angles.split(",")] if angles else []
            groups = [_operands(part, builder.registers) for part in operands.split(",")]
            width = max(len(group) for group in groups)
            if any(len(group) not in (1, width) for group in groups):
                raise BadCircuit(f"{statement.strip()[:60]!r} names registers of different sizes")
            for n in range(width):
                builder.add(name, values, [group[n % len(group)] for group in groups])


def _declare(name: str, operands: str, builder: _Builder) -> None:
    matched = _REGISTER.fullmatch(operands)
    if matched is None:
        raise BadCircuit(f"{name} {operands[:40]!r} is not understood")
    size = int(matched.group(2))
    if name == "qreg":
        builder.registers[matched.group(1)] = (builder.qubits, size)
        builder.qubits += size
        if builder.qubits > builder.limit:
            raise BadCircuit(f"a circuit has at most {builder.limit} qubits")
    else:
        builder.classical[matched.group(1)] = (builder.bits, size)
        builder.bits += size


def _operands(text: str, registers: Mapping[str, tuple[int, int]]) -> list[int]:
    """The indexes that `q` (all of them) or `q[2]` stands for."""
    name, _, index = text.strip().partition("[")
    first, size = registers.get(name.strip(), (0, 0))
    if size == 0:
        raise BadCircuit(f"register {name.strip()[:20]!r} is not declared")
    if not index:
        return list(range(first, first + size))
    number = index.rstrip().removesuffix("]").strip()
    if not number.isdigit() or int(number) >= size:
        raise BadCircuit(f"{text.strip()[:30]!r} is outside the register")
    return [first + int(number)]


def _measure(operands: str, builder: _Builder) -> None:
    source, arrow, target = operands.partition("->")
    qubits, bits = _operands(source, builder.registers), _operands(target, builder.classical) if arrow else []
    if len(qubits) != len(bits):
        raise BadCircuit(f"measure {operands[:40]!r}: sizes differ")
    builder.measured |= dict(zip(bits, qubits, strict=True))


def _listed(source: Mapping[str, Any], builder: _Builder) -> None:
    qubits, gates = source.get("qubits"), source.get("gates")
    if isinstance(qubits, bool) or not isinstance(qubits, int) or not isinstance(gates, list):
        raise BadCircuit("a circuit mapping has `qubits` (a number) and `gates` (a list)")
    builder.qubits = qubits
    for gate in gates if 0 < qubits <= builder.limit else ():
        if not isinstance(gate, Mapping) or not isinstance(gate.get("qubits"), list):
            raise BadCircuit(f"gate {str(gate)[:60]} must be like {{gate: rx, qubits: [0], angles: [pi/2]}}")
        if not all(isinstance(q, int) for q in gate["qubits"]):
            raise BadCircuit(f"gate {str(gate)[:60]}: qubits are numbers")
        builder.add(str(gate.get("gate")), [builder.angle(a) for a in gate.get("angles", [])], gate["qubits"])


def simulate(circuit: Circuit, go_on: Callable[[], None]) -> list[float]:
    """The probability of each basis state (qubit 0 is the lowest bit). `go_on` is called per gate and may raise."""
    state = [0j] * (1 << circuit.qubits)
    state[0] = 1 + 0j
    for gate in circuit.gates:
        go_on()
        a, b, c, d = gate.matrix
        bit = 1 << gate.target
        mask = sum(1 << control for control in gate.controls)
        for low in range(len(state)):
            if not low & bit and low & mask == mask:
                zero, one = state[low], state[low | bit]
                state[low], state[low | bit] = a * zero + b * one, c * zero + d * one
    return [amplitude.real**2 + amplitude.imag**2 for amplitude in state]


def outcomes(circuit: Circuit, probabilities: Sequence[float]) -> dict[str, float]:
    """Probability of each reading of the classical bits, written with the highest bit first."""
    found: dict[str, float] = {}
    order = sorted(circuit.measured, reverse=True)
    for state, probability in enumerate(probabilities):
        if probability > 1e-12:
            reading = "".join("1" if state >> circuit.measured[bit] & 1 else "0" for bit in order)
            found[reading] = found.get(reading, 0.0) + probability
    return dict(sorted(found.items()))
