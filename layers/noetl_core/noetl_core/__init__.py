"""NoETL core: the Playbook DSL (v10) and its event-sourced engine, shared by the Lambda functions and the local runner.

`dsl`, `expr` and `engine` are pure: no input or output, no clock, no randomness, no environment. `control` and `worker` are
the two services; they reach the world only through `ports`. `adapters` implement the ports; `tools` run tasks.

Programs that run playbooks need `run`, which gives an `Execution`:

    import noetl_core

    execution = noetl_core.run("hello.yaml", {"name": "Ada"})
    print(execution.status, execution.result)

They are loaded when they are asked for: importing this package loads nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl_core.embedded import Execution, run

__version__ = "0.1.0"
__all__ = ["Execution", "__version__", "run"]


def __getattr__(name: str) -> Any:
    if name in ("Execution", "run"):
        return getattr(import_module("noetl_core.embedded"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
