"""`kind: container` for NoETL: a task of ECS, which no worker waits for (docs/tools/container.md).

`tool` is the kind, `request` reads what is to be started, `ended` says what the end of a task of ECS is as an outcome.
"""

from noetl_container.tool import ContainerTool

__all__ = ["ContainerTool"]
