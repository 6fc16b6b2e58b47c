"""`kind: quantum` for NoETL: circuits, on an exact simulator that is part of this package, or on Amazon Braket's local
simulator.

`circuit` reads circuits and simulates them, `braket` passes them to Amazon Braket's simulator, `tool` is the kind. A plugin
uses `noetl_core.tools.base`, `noetl_core.engine.outcome` and `noetl_core.ports`, and nothing else of the engine.
"""

from noetl_quantum.tool import QuantumTool

__all__ = ["QuantumTool"]
