"""Shows executions in notebooks: `Execution` does by itself, `View` those of a store or a stack (docs/python.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl_core.api.requests import Api


class View:
    """An execution of a store or a stack, as it is when the notebook shows it: graph, steps, causes of a failure, result."""

    def __init__(self, api: Api, execution_id: str) -> None:
        self.api, self.id = api, execution_id

    def _repr_html_(self) -> str:
        return html(self.api, self.id)

    def __repr__(self) -> str:
        return f"<Execution {self.id} {self.api.state(self.id)['status']}>"


def html(api: Api, execution_id: str) -> str:
    """Return an execution as part of a page."""
    from noetl_core.observe.report import DRAWN, fragment  # 10 ms: needed only by notebooks

    summary = api.execution(execution_id)
    drawing = api.drawing(execution_id, "svg", fold=True) if len(summary["steps"]) <= DRAWN else ""
    return fragment(summary, api.why(execution_id), drawing)
