"""`kind: quantum` for NoETL: circuits, on an exact simulator that is part of this package, or on Amazon Braket's local one.

`circuit` reads circuits and simulates them, `braket` hands them to Amazon Braket's simulator, `tool` is the kind. A plugin
stands on `noetl_core.tools.base`, `noetl_core.engine.outcome` and `noetl_core.ports`, and on nothing else of the engine.
"""

from noetl_quantum.tool import QuantumTool

__all__ = ["QuantumTool"]
