"""Driving one activation of a run: one driver thread owns every machine, tools run on it or in a small pool (DESIGN 4.5)."""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from queue import Empty, SimpleQueue
from typing import Any, Literal

from noetl_core.dsl.model import Loop, Playbook, Step, Task
from noetl_core.engine import ids
from noetl_core.engine.loops import CtxConflict, chunk_plan
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.pipeline import SECOND, Pipeline, fold, process
from noetl_core.expr import Scope, TemplateError, render
from noetl_core.worker.calls import Calls
from noetl_core.worker.journal import Journal
from noetl_core.worker.nodes import CtxLayer, Leaf, LoopNode, Path, loop_limit
from noetl_core.worker.past import Past
from noetl_core.worker.view import RunView
from noetl_core.worker.waiting import INLINE_WAIT_S, WAITING_KINDS, BadWait, outcome_of, wait_for

POOL_THREADS = 64
SPARE_S = 30.0
"""A task without a timeout of its own is not started with less than this left of the invocation."""
TICK_S = 0.5


@dataclass(frozen=True, slots=True)
class Ended:
    """How an activation ended: the boundary event's name and data."""

    name: Literal["StepDone", "StepFailed", "StepSuspended", "LoopChunkDone"]
    data: Mapping[str, Any]


@dataclass
class Runner:
    """One activation of one run (a step run, or a chunk of its loop)."""

    playbook: Playbook
    step: Step
    view: RunView
    past: Past
    journal: Journal
    calls: Calls
    step_run: str
    keychain: Mapping[str, Any]
    chunk: Mapping[str, Any] | None = None
    """For a chunk run: the lead's plan, and `chunk`, its index."""
    deadline: int | None = None
    ready: deque[Leaf] = field(default_factory=deque)
    sleeping: list[tuple[int, int, Leaf]] = field(default_factory=list)
    waiting: list[Leaf] = field(default_factory=list)
    running: int = 0
    halt: Literal["", "pause", "deadline"] = ""
    ended: Ended | None = None
    started_any: bool = False
    _pool: ThreadPoolExecutor | None = None
    _done: SimpleQueue[tuple[Leaf, Task, Outcome, int | None]] = field(default_factory=SimpleQueue)

    # --- driving --------------------------------------------------------------------------------------------------------

    def run(self) -> Ended:
        """Until the run ends or suspends. Raises `Fenced`, and port errors for redelivery."""
        try:
            self._begin()
            while self.ended is None:
                self._watch()
                if self.halt and not self.running:
                    return self._suspended()
                if self.ready and not self.halt:
                    self._advance(self.ready.popleft())
                elif self.running:
                    self._collect()
                elif not self._sleep():
                    return self._suspended()
            while self.running:
                self._collect()
            return self.ended
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    def _watch(self) -> None:
        """Between tasks: commit what is due, and hear what the gate says."""
        now = self.calls.clock.now()
        if self.journal.due(now):
            self.journal.flush()
            self.calls.read_gate()
        self.calls.check()
        if self.calls.gate == "pause":
            self.halt = self.halt or "pause"

    def _collect(self) -> None:
        try:
            leaf, task, outcome, started = self._done.get(timeout=TICK_S)
        except Empty:
            return
        self.running -= 1
        self._processed(leaf, task, outcome, started)

    def _sleep(self) -> bool:
        """Sleep until the next short wait is over; False when there is none."""
        if self.halt or not self.sleeping:
            return False
        at, _, leaf = heapq.heappop(self.sleeping)
        self.journal.flush()
        self.calls.clock.sleep(max(0, at - self.calls.clock.now()) / SECOND)
        self.ready.append(leaf)
        return True

    def _suspended(self) -> Ended:
        waits = [leaf.wait for leaf in self.waiting if leaf.wait is not None]
        waits += [leaf.wait or self._retry_wait(leaf, at) for at, _, leaf in self.sleeping]
        if self.halt:
            kind = self.halt
            waits.append(
                {"wait_id": ids.wait_id(self.step_run, self.journal.seq, kind), "kind": kind, "at": self.calls.clock.now()}
            )
        return Ended("StepSuspended", {"waits": waits})

    # --- beginning ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        ctx = CtxLayer(self.view.ctx)
        handed = self.view.args.get("iter") if isinstance(self.view.args.get("iter"), Mapping) else None
        outer = {"parent": handed} if handed else {}
        if self.step.loop is None:
            self._push_leaf(Pipeline(self.step_run, ()), ctx, None, outer)
            return
        loop = self.step.loop
        if self.chunk is not None:
            self._begin_chunk(loop, ctx, outer, self.chunk)
            return
        items = self._collection(loop, (), ctx, outer)
        if isinstance(items, Ended):
            self.ended = items
            return
        if self._distributed(loop):
            self._lead(loop, items)
            return
        self._begin_loop(loop, (), items, ctx, outer, None)

    def _begin_chunk(self, loop: Loop, ctx: CtxLayer, outer: dict[str, Any], chunk: Mapping[str, Any]) -> None:
        first = chunk["chunk"] * chunk["chunk_size"]
        items = json.loads(self.calls.results.get(slice_key(self.view.execution_id, self.step_run, chunk["chunk"])))
        node = LoopNode(loop, (), items, ctx, outer, limit=chunk["per_chunk"], first=first)
        node.tolerated = self._tolerated(loop, int(chunk["total"]))
        self._fill(node)

    def _begin_loop(
        self, loop: Loop, path: Path, items: list[Any], ctx: CtxLayer, outer: dict[str, Any], parent: LoopNode | None
    ) -> None:
        asked = self._number(loop.max_in_flight, ctx, outer)
        node = LoopNode(
            loop, path, items, ctx, outer, limit=loop_limit(loop, None if asked is None else int(asked)), parent=parent
        )
        node.tolerated = self._tolerated(loop, len(items))
        self._fill(node)

    def _tolerated(self, loop: Loop, total: int) -> int:
        ctx = CtxLayer(self.view.ctx)
        count = self._number(loop.tolerated_count, ctx, {}) or 0
        percent = self._number(loop.tolerated_percent, ctx, {}) or 0
        return max(int(count), int(total * percent / 100))

    def _number(self, value: Any, ctx: CtxLayer, outer: dict[str, Any]) -> float | None:
        if isinstance(value, str):
            value = render(value, self._scope(ctx, outer), undefined_ok=True)
        return None if value is None else float(value)

    def _collection(self, loop: Loop, path: Path, ctx: CtxLayer, outer: dict[str, Any]) -> list[Any] | Ended:
        """`loop.in`, rendered once and recorded; never rendered again (DESIGN section 4 "Loops")."""
        known = self.past.collections.get(path)
        if known is not None:
            held = known["items"]
            return list(self.calls.resolve(held) if isinstance(held, Mapping) else held)
        try:
            value = render(loop.in_, self._scope(ctx, outer))
            if isinstance(value, Mapping) and value.get("kind") == "result_ref":
                value = self.calls.resolve(value)
            items = _items(value)
        except TemplateError as error:
            return Ended("StepFailed", {"error": {"kind": error.kind, "message": f"loop.in: {error}", "retryable": False}})
        except BadCollection as error:
            return Ended("StepFailed", {"error": {"kind": "schema", "message": str(error), "retryable": False}})
        if path or not self._distributed(loop):
            stored = self.calls.small(items, f"loops/{self.step_run}/items{''.join(f'-{i}' for i in path)}")
            data: dict[str, Any] = {"total": len(items), "items": stored}
            if path:
                data["path"] = list(path)
            self.journal.add("LoopCollected", data)
        return items

    def _distributed(self, loop: Loop) -> bool:
        """Parallel loops that ask for it; and, unless told otherwise, those whose body waits."""
        if loop.mode != "parallel":
            return False
        if loop.exec is not None:
            return loop.exec == "distributed"
        return self._waits and loop.inner is None

    @property
    def _waits(self) -> bool:
        return any(t.kind in WAITING_KINDS for t in self.step.tasks)

    def _lead(self, loop: Loop, items: list[Any]) -> None:
        """The lead of a distributed loop: store the slices, then hand over to the control plane."""
        ctx = CtxLayer(self.view.ctx)
        asked = self._number(loop.max_in_flight, ctx, {})
        size = self._number(loop.chunk_size, ctx, {})
        limit = loop_limit(loop, None if asked is None else int(asked))
        plan = chunk_plan(len(items), limit, None if size is None else int(size), waits=self._waits)
        digest = sha256()
        for chunk in range(plan.chunks):
            body = json.dumps(items[chunk * plan.chunk_size : (chunk + 1) * plan.chunk_size], separators=(",", ":")).encode()
            digest.update(body)
            self.calls.results.put(slice_key(self.view.execution_id, self.step_run, chunk), body)
        loop_plan = {**plan.as_dict(), "checksum": "sha256:" + digest.hexdigest()}
        self.ended = Ended("StepSuspended", {"waits": [], "loop": loop_plan})

    # --- loops ----------------------------------------------------------------------------------------------------------

    def _fill(self, node: LoopNode) -> None:
        """Keep the loop's window full; close it when it is over. Iterations that end at once find it at work already."""
        if node.filling:
            return
        node.filling = True
        while node.may_spawn and not self.halt:
            index = node.first + node.next
            item = node.items[node.next]
            node.next += 1
            path = (*node.path, index)
            done = self.past.finished.pop(path, None)
            if done is not None:
                self._settle(node, index, done, CtxLayer(node.ctx.view))
                continue
            node.live += 1
            layer = CtxLayer(node.ctx.view) if node.parallel else node.ctx
            scope = {**({"parent": node.iter} if node.iter else {}), node.loop.iterator: item, "index": index}
            self._begin_iteration(node, path, layer, scope)
            if self.ended is not None:
                return
        node.filling = False
        if node.over:
            self._close(node)

    def _begin_iteration(self, node: LoopNode, path: Path, layer: CtxLayer, scope: dict[str, Any]) -> None:
        if path not in self.past.begun:
            self.journal.add("LoopIterationStarted", {"path": list(path)})
        if node.loop.inner is None:
            self._push_leaf(Pipeline(self.step_run, path), layer, node, scope)
            return
        items = self._collection(node.loop.inner, path, layer, scope)
        if isinstance(items, Ended):
            self._finish_iteration(node, path, layer, ok=False, result=None, error=items.data["error"], broke=False)
        else:
            self._begin_loop(node.loop.inner, path, items, layer, scope, node)

    def _finish_iteration(
        self, node: LoopNode, path: Path, layer: CtxLayer, *, ok: bool, result: Any, error: Mapping[str, Any] | None, broke: bool
    ) -> None:
        data: dict[str, Any] = {"path": list(path), "status": "success" if ok else "error"}
        if ok:
            data["result"] = result
        else:
            data["error"] = error
        if node.parallel and layer.writes:
            data["set_ctx"] = layer.writes
        if broke:
            data["broke"] = True
        self.journal.add("LoopIterationCompleted", data)
        node.live -= 1
        self._settle(node, path[-1], data, layer)
        self._fill(node)

    def _settle(self, node: LoopNode, index: int, d: Mapping[str, Any], layer: CtxLayer) -> None:
        writes = dict(d.get("set_ctx") or {})
        ok = d["status"] == "success"
        node.settle(index, ok=ok, result=d.get("result"), error=d.get("error"), writes=writes, broke=bool(d.get("broke")))

    def _close(self, node: LoopNode) -> None:
        try:
            if self.chunk is None or node.parent is not None:
                node.merge()
        except CtxConflict as conflict:
            node.error = node.error or {"kind": "ctx_conflict", "message": str(conflict), "retryable": False}
        if node.parent is not None:
            result = self.calls.small(node.results, f"loops/{self.step_run}/results{''.join(f'-{i}' for i in node.path)}")
            ok = node.error is None
            self._finish_iteration(node.parent, node.path, node.ctx, ok=ok, result=result, error=node.error, broke=False)
            return
        counts: dict[str, Any] = {"total": len(node.items), "succeeded": node.succeeded, "failed": node.failed}
        where = f"loops/{self.step_run}/results" + ("" if self.chunk is None else f"-chunk-{self.chunk['chunk']}")
        data = {**counts, "result": self.calls.small(node.results, where)}
        if self.chunk is not None:
            data.update(first=node.first, count=len(node.items), broke=node.broke)
            data["ctx_writes"] = [[index, patch] for index, patch in sorted(node.writes, key=lambda w: w[0])]
        elif node.ctx.writes:
            data["set_ctx"] = node.ctx.writes
        if node.error is not None:
            data["error"] = node.error
        self.ended = Ended("LoopChunkDone", data)

    # --- passes over the pipeline ---------------------------------------------------------------------------------------

    def _push_leaf(self, pipe: Pipeline, ctx: CtxLayer, parent: LoopNode | None, scope: dict[str, Any]) -> None:
        leaf = Leaf(pipe, ctx, parent, scope)
        pipe.iter = leaf.iter
        for event in self.past.tasks.pop(pipe.path, ()):
            ctx.write(event.data.get("set_ctx") or {})
            fold(pipe, self.step.tasks, event)
        self.ready.append(leaf)

    def _scope(self, ctx: CtxLayer, scope_iter: dict[str, Any]) -> Scope:
        v = self.view
        base = {
            "workload": v.workload,
            "ctx": ctx.view,
            "iter": scope_iter,
            "args": v.args,
            "steps": v.steps,
            "execution_id": v.execution_id,
            "keychain": self.keychain,
        }
        return Scope(base, resolve=self.calls.resolve)

    def _advance(self, leaf: Leaf) -> None:
        """Run a pass until it ends, waits, or a tool of its own thread has it."""
        while leaf.pipe.status == "running":
            if self.halt:
                self.ready.append(leaf)
                return
            task = self.step.tasks[leaf.pipe.pc]
            if leaf.pipe.visited >= self.playbook.executor.limits.max_task_visits:
                self._limit(leaf, task)
                break
            if leaf.pipe.not_before > self.calls.clock.now() and self._wait_until(leaf, leaf.pipe.not_before):
                return
            if not self._run_task(leaf, task):
                return
            self._watch()
        self._finish_leaf(leaf)

    def _limit(self, leaf: Leaf, task: Task) -> None:
        limit = self.playbook.executor.limits.max_task_visits
        leaf.pipe.status = "failed"
        message = f"the pipeline visited its tasks {limit} times (executor.spec.policy.limits.max_task_visits)"
        leaf.pipe.error = {"kind": "limit", "message": message, "retryable": False, "task": task.name}

    def _wait_until(self, leaf: Leaf, at: int) -> bool:
        """Put a pass to sleep until `at`: in place when that is soon, else as a wait of the suspension."""
        now = self.calls.clock.now()
        if at - now <= INLINE_WAIT_S * SECOND and (self.deadline is None or at < self.deadline - SPARE_S * SECOND):
            heapq.heappush(self.sleeping, (at, id(leaf), leaf))
        else:
            leaf.wait = self._retry_wait(leaf, at)
            self.waiting.append(leaf)
        return True

    def _retry_wait(self, leaf: Leaf, at: int) -> dict[str, Any]:
        task = self.step.tasks[leaf.pipe.pc]
        wait_id = ids.wait_id(leaf.pipe.task_run(task), leaf.pipe.attempt, "retry")
        return {"wait_id": wait_id, "kind": "timer", "at": at, "task": task.name, "path": list(leaf.path)}

    def _run_task(self, leaf: Leaf, task: Task) -> bool:
        """Run the pass's next task; False when it is out of our hands for now."""
        scope = self._scope(leaf.ctx, leaf.iter).over(leaf.pipe.locals(task))
        started = self.calls.clock.now()
        try:
            inputs = render(task.inputs, scope)
            timeout = self.calls.timeout_of(task, scope)
        except TemplateError as error:
            outcome = Outcome.failed(error.kind, f"inputs of task {task.name}: {error}", retryable=False)
            self._processed(leaf, task, outcome, started, resume=False)
            return True
        if task.kind in WAITING_KINDS:
            return self._waiting_task(leaf, task, inputs, started)
        if self._too_late(timeout, started):
            self.halt = "deadline"
            self.ready.append(leaf)
            return False
        self.started_any = True
        call = self.calls.prepare(task, inputs, leaf.pipe, self.step.name, self.view.execution_id, timeout, self.deadline)
        if self.calls.inline(task.kind) or not self._concurrent(leaf):
            outcome, announced = self.calls.invoke(task.kind, call, list(leaf.path))
            self._processed(leaf, task, outcome, None if announced else started, resume=False)
            return True
        self.running += 1
        self._submit(leaf, task, call, started)
        return False

    def _concurrent(self, leaf: Leaf) -> bool:
        node = leaf.parent
        while node is not None:
            if node.limit > 1 and len(node.items) > 1:
                return True
            node = node.parent
        return False

    def _submit(self, leaf: Leaf, task: Task, call: Any, started: int) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="task")

        def work() -> None:
            outcome, announced = self.calls.invoke(task.kind, call, list(leaf.path))
            self._done.put((leaf, task, outcome, None if announced else started))

        self._pool.submit(work)

    def _too_late(self, timeout: float | None, now: int) -> bool:
        """Whether the task might not end before the invocation does; a fresh invocation tries it anyway."""
        if self.deadline is None or not self.started_any:
            return False
        need = SPARE_S if timeout is None else timeout + 5
        return now + need * SECOND > self.deadline

    def _waiting_task(self, leaf: Leaf, task: Task, inputs: Mapping[str, Any], started: int) -> bool:
        pipe = leaf.pipe
        handed = {k: v for k, v in leaf.iter.items() if k != "parent"}
        try:
            wait = wait_for(
                task.kind, inputs, pipe.task_run(task), pipe.attempt, self.past, started, self.view.execution_id, handed
            )
        except BadWait as error:
            self._processed(leaf, task, Outcome.failed("schema", str(error), retryable=False), started, resume=False)
            return True
        mail = self.past.mail.get(wait["wait_id"])
        if mail is None and wait["kind"] == "timer" and wait["at"] <= started:
            mail = {"kind": "timer"}
        if mail is not None:
            self._processed(leaf, task, outcome_of(wait, mail), started, resume=False)
            return True
        leaf.wait = {**wait, "task": task.name, "path": list(leaf.path)}
        self.past.waits[wait["wait_id"]] = leaf.wait
        if wait["kind"] == "timer" and wait["at"] - started <= INLINE_WAIT_S * SECOND:
            heapq.heappush(self.sleeping, (wait["at"], id(leaf), leaf))
        else:
            self.waiting.append(leaf)
        return False

    def _processed(self, leaf: Leaf, task: Task, outcome: Outcome, started: int | None, *, resume: bool = True) -> None:
        """Judge an outcome, record it, fold it."""
        pipe = leaf.pipe
        leaf.wait = None
        scope = self._scope(leaf.ctx, leaf.iter).over(pipe.locals(task))
        outcome = self.calls.kept(outcome, pipe.task_run(task), pipe.attempt)
        now = self.calls.clock.now()
        event, directive = process(pipe, task, outcome, scope, now, now if started is None else started)
        event = self.calls.stored(event, announced=started is None)
        leaf.ctx.write(event.data.get("set_ctx") or {})
        fold(pipe, self.step.tasks, event)
        self.journal.put(self.calls.public(event))
        if directive.do == "retry":
            retried = {k: event.data[k] for k in ("task", "run", "path", "attempt") if k in event.data}
            error = event.data["outcome"].get("error")
            self.journal.add("TaskRetried", {**retried, "delay": directive.delay, **({"error": error} if error else {})})
        if resume:
            self.ready.append(leaf)

    def _finish_leaf(self, leaf: Leaf) -> None:
        pipe = leaf.pipe
        ok = pipe.status == "done"
        if leaf.parent is not None:
            self._finish_iteration(
                leaf.parent, leaf.path, leaf.ctx, ok=ok, result=pipe.result, error=pipe.error, broke=pipe.broke_loop
            )
            return
        writes = {"set_ctx": leaf.ctx.writes} if leaf.ctx.writes else {}
        if ok:
            self.ended = Ended("StepDone", {"result": self.calls.masked(pipe.result), **writes})
        else:
            self.ended = Ended("StepFailed", {"error": self.calls.masked(dict(pipe.error or {})), **writes})


class BadCollection(ValueError):
    """`loop.in` is not a collection. Who acts: the author."""


def _items(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [{"key": k, "value": v} for k, v in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(value)
    raise BadCollection(f"loop.in must give a list, not {type(value).__name__} ({str(value)[:60]!r})")


def slice_key(execution_id: str, step_run: str, chunk: int) -> str:
    """Where a chunk's slice of the collection is."""
    return f"{execution_id}/loops/{step_run}/{chunk}.json"
