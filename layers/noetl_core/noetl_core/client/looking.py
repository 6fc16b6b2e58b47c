"""The read-only operations over HTTP; `http` has the others, and the transport."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from noetl_core.client.errors import Unreachable

if TYPE_CHECKING:
    from noetl_core.client import following_shapes, shapes, step_shapes, view_shapes, why_shapes
    from noetl_core.client.api import Drawn


class Looking(ABC):
    """Requests that change nothing, over `send`."""

    url: str

    @abstractmethod
    def send(
        self,
        method: str,
        what: str,
        body: Mapping[str, Any] | str | None,
        query: Mapping[str, Any],
        also: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """As `http.Client.send`."""

    def changes(
        self,
        execution_id: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        fields: str | None = None,
        known: str | None = None,
    ) -> following_shapes.Changes | None:
        what, query = path_of(execution_id, "changes"), {"after": after, "limit": limit, "fields": fields}
        text = self.send("GET", what, None, query, headers={"if-none-match": f'"{known}"'} if known else None)
        return cast("following_shapes.Changes", self._parsed(what, text)) if text else None

    def events(
        self,
        execution_id: str,
        *,
        after: str | None = None,
        name: str | None = None,
        limit: int | None = None,
        before: str | None = None,
        at: str | None = None,
        tail: int | None = None,
        step: str | None = None,
        task: str | None = None,
        status: str | None = None,
        iteration: str | None = None,
        fields: str | None = None,
    ) -> shapes.Events:
        found = self._get(
            path_of(execution_id, "events"),
            after=after,
            name=name,
            limit=limit,
            before=before,
            at=at,
            tail=tail,
            step=step,
            task=task,
            status=status,
            iteration=iteration,
            fields=fields,
        )
        return cast("shapes.Events", found)

    def stats(self, *, path: str | None = None, since: str | None = None, label: str | None = None) -> following_shapes.Stats:
        return cast("following_shapes.Stats", self._get("executions/stats", path=path, since=since, label=label))

    def waiting_callbacks(
        self, *, path: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> following_shapes.WaitingCallbacks:
        return cast("following_shapes.WaitingCallbacks", self._get("callbacks", path=path, limit=limit, cursor=cursor))

    def timeline(
        self,
        execution_id: str,
        limit: int | None = None,
        *,
        rows: int | None = None,
        step: str | None = None,
        begin: str | None = None,
        end: str | None = None,
    ) -> view_shapes.Timeline:
        query = {"limit": limit, "rows": rows, "step": step, "from": begin, "to": end}
        return cast("view_shapes.Timeline", self._get(path_of(execution_id, "timeline"), **query))

    def graph(self, execution_id: str, *, layout: bool | None = None, at: str | None = None) -> view_shapes.Graph:
        return cast("view_shapes.Graph", self._get(path_of(execution_id, "graph"), layout=layout, at=at))

    def playbook_graph(self, source: str, *, layout: bool | None = None) -> view_shapes.PlaybookGraph:
        return cast("view_shapes.PlaybookGraph", self._post("playbooks/graph", source, layout=layout))

    def drawing(self, execution_id: str, form: Drawn) -> str:
        return self.send("GET", path_of(execution_id, "graph"), None, {"format": form})

    def cost(self, execution_id: str) -> view_shapes.Cost:
        return cast("view_shapes.Cost", self._get(path_of(execution_id, "cost")))

    def step_summary(self, execution_id: str, step: str, buckets: int | None = None) -> view_shapes.StepAggregates:
        what = path_of(execution_id, f"steps/{quote(step, safe='')}/summary")
        return cast("view_shapes.StepAggregates", self._get(what, buckets=buckets))

    def iterations(
        self,
        execution_id: str,
        step: str,
        *,
        status: str | None = None,
        q: str | None = None,
        begin: int | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> step_shapes.Iterations:
        what, query = path_of(execution_id, f"steps/{quote(step, safe='')}/iterations"), {"from": begin}
        found = self._get(what, status=status, q=q, after=after, limit=limit, **query)
        return cast("step_shapes.Iterations", found)

    def iteration(self, execution_id: str, step: str, iteration: str) -> step_shapes.IterationDetail:
        what = path_of(execution_id, f"steps/{quote(step, safe='')}/iterations/{quote(iteration, safe='')}")
        return cast("step_shapes.IterationDetail", self._get(what))

    def why(self, execution_id: str, step: str | None = None, *, at: str | None = None) -> why_shapes.Why:
        return cast("why_shapes.Why", self._get(path_of(execution_id, "why"), step=step, at=at))

    def diff(self, execution_id: str, other: str) -> why_shapes.Diff:
        return cast("why_shapes.Diff", self._get(path_of(execution_id, "diff"), other=other))

    def object_piece(self, execution_id: str, key: str, start: int = 0) -> view_shapes.ObjectPiece:
        return cast("view_shapes.ObjectPiece", self._get(path_of(execution_id, "object"), key=key, start=start or None))

    def page_result(self, execution_id: str, run: str, seq: int) -> view_shapes.PageResult:
        return cast("view_shapes.PageResult", self._get(path_of(execution_id, "pages"), run=run, seq=seq))

    def logs(
        self,
        execution_id: str,
        *,
        step: str | None = None,
        task: str | None = None,
        full: bool | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> view_shapes.Logs:
        found = self._get(path_of(execution_id, "logs"), step=step, task=task, full=full, after=after, limit=limit)
        return cast("view_shapes.Logs", found)

    def replay(self, execution_id: str, *, after: str | None = None, playbook: str | None = None) -> view_shapes.Replay:
        what = path_of(execution_id, "replay")
        found = self._get(what, after=after) if playbook is None else self._post(what, {"playbook": playbook}, after=after)
        return cast("view_shapes.Replay", found)

    def _get(self, what: str, **query: Any) -> Any:
        return self._json("GET", what, None, query)

    def _post(self, what: str, body: Mapping[str, Any] | str, **query: Any) -> Any:
        given = body if isinstance(body, str) else {k: v for k, v in body.items() if v is not None}
        return self._json("POST", what, given, query)

    def _json(
        self, method: str, what: str, body: Mapping[str, Any] | str | None, query: Mapping[str, Any], also: tuple[int, ...] = ()
    ) -> Any:
        return self._parsed(what, self.send(method, what, body, query, also))

    def _parsed(self, what: str, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            raise Unreachable(f"{self.url}/api/{what}: not JSON: {text[:300]}") from None


def path_of(execution_id: str, view: str = "") -> str:
    """Return the path of an execution, or of a part of it, after `/api/`."""
    return f"executions/{quote(execution_id, safe='')}" + (f"/{view}" if view else "")
