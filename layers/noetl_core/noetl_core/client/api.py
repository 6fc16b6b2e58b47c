"""The API as typed methods: over HTTP (`client.http.Client`) or in this process (`control.operations.Operations`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from noetl_core.client import (
        catalog_shapes,
        following_shapes,
        limit_shapes,
        service_shapes,
        shapes,
        step_shapes,
        trigger_shapes,
        view_shapes,
        why_shapes,
    )
    from noetl_core.dsl.versions import Version

Drawn = Literal["mermaid", "dot", "svg"]


class Api(Protocol):
    """Every operation. Arguments that are None are omitted; the answers are those of the OpenAPI document."""

    # --- the service ---

    def health(self) -> service_shapes.Health: ...

    def queue(self) -> service_shapes.Backlog: ...

    def runtime(self) -> service_shapes.Runtime: ...

    def limits(self, key: str | None = None) -> limit_shapes.Limits:
        """Limits in use; with `key`, who holds and awaits places in that one."""
        ...

    # --- catalog ---

    def register(self, source: str) -> catalog_shapes.RegisteredPlaybook:
        """Register the text of a playbook under its `metadata.path`."""
        ...

    def validate(self, source: str) -> catalog_shapes.Validation: ...

    def playbooks(
        self, prefix: str | None = None, *, tag: str | None = None, deleted: bool | None = None
    ) -> catalog_shapes.Playbooks:
        """Playbooks that may be started; with `deleted`, those that are deleted."""
        ...

    def playbook(self, path: str, version: Version = None) -> catalog_shapes.PlaybookSource: ...

    def playbook_versions(self, path: str) -> catalog_shapes.PlaybookVersions: ...

    def about_playbook(self, path: str) -> catalog_shapes.AboutPlaybook: ...

    def set_alias(self, path: str, name: str, weights: Mapping[int, int] | None) -> catalog_shapes.AboutPlaybook:
        """Point an alias to versions, each with its weight; None removes it."""
        ...

    def tag_playbook(self, path: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> catalog_shapes.AboutPlaybook: ...

    def delete_playbook(self, path: str) -> catalog_shapes.AboutPlaybook:
        """Start nothing new from it; running executions continue, and its versions stay."""
        ...

    def undelete_playbook(self, path: str) -> catalog_shapes.AboutPlaybook: ...

    def backfill(
        self,
        path: str,
        begin: str,
        end: str,
        *,
        version: Version = None,
        trigger: str | None = None,
        parallel: int | None = None,
        again: str | None = None,
        preview: bool | None = None,
    ) -> catalog_shapes.BackfillStarted:
        """Run a playbook for the occurrences of its schedule from `begin` to before `end`, `parallel` at a time; with
        `preview` only report which these are. `again` distinguishes a repetition from the same request sent twice."""
        ...

    # --- triggers ---

    def triggers(self, path: str | None = None, kind: str | None = None) -> trigger_shapes.Triggers: ...

    def trigger(self, path: str, name: str) -> trigger_shapes.TriggerDetails:
        """A trigger, its next occurrences, and the outcome of the last ones."""
        ...

    def switch_trigger(self, path: str, name: str, *, on: bool) -> trigger_shapes.Trigger: ...

    def fire_trigger(
        self,
        path: str,
        name: str,
        *,
        at: str | None = None,
        event: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> trigger_shapes.Firing:
        """Start what a trigger starts: now, or for its occurrence `at`; with an `event` if it waits for deliveries."""
        ...

    def refused(self, path: str | None = None, limit: int | None = None) -> trigger_shapes.RefusedDeliveries:
        """What triggers could not start, newest first."""
        ...

    def fire_refused(self, id: str) -> trigger_shapes.Firing: ...

    def forget_refused(self, id: str) -> trigger_shapes.Forgotten: ...

    # --- executions ---

    def start(
        self,
        *,
        path: str | None = None,
        version: Version = None,
        playbook_id: str | None = None,
        playbook: str | None = None,
        payload: Mapping[str, Any] | None = None,
        ctx: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        parent: Mapping[str, str] | None = None,
        trace_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        priority: float | None = None,
        strict: bool | None = None,
    ) -> shapes.Started:
        """Start a registered playbook by `path` (and `version`, a number or an alias) or by `playbook_id` (its digest), or the
        text `playbook`."""
        ...

    def executions(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        since: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        search: str | None = None,
        label: str | None = None,
        q: str | None = None,
    ) -> shapes.Executions:
        """A page of executions, newest first. `search`: attributes that they have, as a query: `customer=acme&total=12`."""
        ...

    def execution(self, execution_id: str) -> shapes.Execution: ...

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
        """A page of the history: after a cursor or the id of an event, before the id of one, from `at` (an id, an instant, a
        number) on, or the last `tail`; of these names (separated by commas), step, task, status, iteration; these `fields`."""
        ...

    def changes(
        self,
        execution_id: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        fields: str | None = None,
        known: str | None = None,
    ) -> following_shapes.Changes | None:
        """The state, and what has happened since the cursor `after`. With `known`, the `etag` of the answer that gave the cursor:
        None where nothing has changed."""
        ...

    def state(self, execution_id: str, at: str | None = None) -> shapes.ExecutionState: ...

    def ctx(self, execution_id: str) -> shapes.Ctx: ...

    def render(
        self,
        execution_id: str,
        template: Any,
        step: str | None = None,
        at: str | None = None,
        *,
        task: str | None = None,
        iteration: str | None = None,
    ) -> shapes.Rendered:
        """With `task` or `iteration` (`617`, or `3.5`) the template reads the names that the task saw; `at` an event of that task
        says both, and the step."""
        ...

    # --- operating ---

    def cancel(self, execution_id: str, *, reason: str | None = None, compensate: bool | None = None) -> shapes.Operated: ...

    def pause(self, execution_id: str) -> shapes.Operated: ...

    def resume(self, execution_id: str) -> shapes.Operated: ...

    def redrive(
        self,
        execution_id: str,
        *,
        begin: str | None = None,
        ctx: Mapping[str, Any] | None = None,
        args: Mapping[str, Any] | None = None,
        playbook: str | None = None,
        version: Version = None,
        preview: bool | None = None,
    ) -> shapes.Redriven:
        """Run what has ended again, from `begin`: `STEP`, `STEP/TASK`, `STEP@3` or `STEP/TASK@0.3` (an iteration), or the
        visit `STEP/TASK@7` in a step without a loop."""
        ...

    def batch(
        self,
        action: Literal["cancel", "pause", "resume", "redrive"],
        *,
        ids: Sequence[str] | None = None,
        status: str | None = None,
        path: str | None = None,
        since: str | None = None,
        until: str | None = None,
        label: str | None = None,
        reason: str | None = None,
        compensate: bool | None = None,
        begin: str | None = None,
        preview: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> following_shapes.Batch:
        """Do an operation to the executions of a status, a playbook, a time or with labels (`key:value,key`), or to those with
        these ids, a page at a time; with `preview` only say to which."""
        ...

    def signal(self, execution_id: str, name: str, data: Any = None, signal_id: str | None = None) -> shapes.Operated: ...

    def callbacks(self, execution_id: str) -> shapes.OpenCallbacks: ...

    def stats(self, *, path: str | None = None, since: str | None = None, label: str | None = None) -> following_shapes.Stats:
        """Executions by status and by playbook, since an instant; since a day by default."""
        ...

    def waiting_callbacks(
        self, *, path: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> following_shapes.WaitingCallbacks:
        """A page of the waiting callbacks of all executions, without their tokens."""
        ...

    def answer_wait(
        self, execution_id: str, wait_id: str, data: Any = None, error: Mapping[str, Any] | str | None = None
    ) -> shapes.CallbackReply:
        """Answer a waiting callback, by its execution and `wait_id`."""
        ...

    def wait_heartbeat(self, execution_id: str, wait_id: str) -> shapes.CallbackReply: ...

    def answer_callback(
        self, token: str, data: Any = None, error: Mapping[str, Any] | str | None = None
    ) -> shapes.CallbackReply: ...

    def callback_heartbeat(self, token: str) -> shapes.CallbackReply: ...

    # --- views ---

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
        """Spans; with `rows` of at most that many runs, failed and open ones first, then the slowest."""
        ...

    def graph(self, execution_id: str, *, layout: bool | None = None, at: str | None = None) -> view_shapes.Graph:
        """Steps and arcs, now or just after the event `at`; with `layout` also where they are drawn."""
        ...

    def playbook_graph(self, source: str, *, layout: bool | None = None) -> view_shapes.PlaybookGraph:
        """Steps and arcs of a text that need not be registered."""
        ...

    def drawing(self, execution_id: str, form: Drawn) -> str:
        """The graph as text in that format."""
        ...

    def cost(self, execution_id: str) -> view_shapes.Cost: ...

    def step_summary(self, execution_id: str, step: str, buckets: int | None = None) -> view_shapes.StepAggregates:
        """Durations, retries, errors by kind and message, and failed iterations of a step, however many there are; with `buckets`
        neighbouring iterations together, in so many at most."""
        ...

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
        """A page of the iterations of the newest run of a step; `q` is looked for in their errors, `begin` is an index."""
        ...

    def iteration(self, execution_id: str, step: str, iteration: str) -> step_shapes.IterationDetail:
        """One iteration, `617` or `3.5`, with its item and the attempts of its tasks."""
        ...

    def why(self, execution_id: str, step: str | None = None, *, at: str | None = None) -> why_shapes.Why:
        """Why a step ran or did not, back to the cause; without a step, why the execution ended as it did. With `at`, the id
        of an event, by what was decided up to it."""
        ...

    def diff(self, execution_id: str, other: str) -> why_shapes.Diff:
        """How two executions differ, step by step and visit by visit."""
        ...

    def object_piece(self, execution_id: str, key: str, start: int = 0) -> view_shapes.ObjectPiece:
        """A piece of a stored value of the execution or its family, from byte `start` on."""
        ...

    def page_result(self, execution_id: str, run: str, seq: int) -> view_shapes.PageResult:
        """The results of one chunk of a loop, as referenced by the manifest of the loop's results."""
        ...

    def logs(
        self,
        execution_id: str,
        *,
        step: str | None = None,
        task: str | None = None,
        full: bool | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> view_shapes.Logs: ...

    def replay(self, execution_id: str, *, after: str | None = None, playbook: str | None = None) -> view_shapes.Replay: ...

    # --- credentials ---

    def credentials(self, prefix: str | None = None) -> service_shapes.Credentials: ...

    def credential(self, name: str, *, include_data: bool | None = None) -> service_shapes.Credential: ...

    def put_credential(
        self,
        name: str,
        data: Mapping[str, Any],
        *,
        type: str | None = None,
        description: str | None = None,
        paths: Sequence[str] | None = None,
    ) -> service_shapes.Credential: ...

    def delete_credential(self, name: str) -> service_shapes.Deleted: ...
