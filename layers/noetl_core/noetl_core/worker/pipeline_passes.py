"""Begins passes over the pipeline from their recorded progress, and gives them the scope of their templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_core.engine.pipelines.pipeline import Pipeline, args_of_pass, fold
from noetl_core.expr import Scope
from noetl_core.worker.activation import Activation
from noetl_core.worker.run_tree import CtxLayer, LoopNode, PipelinePass
from noetl_core.worker.secrets.sealing import Seals, restore


class PipelinePasses:
    """Begins the passes of an activation."""

    def __init__(self, activation: Activation, seals: Seals | None) -> None:
        self._activation, self._seals = activation, seals
        self._opened: Mapping[tuple[int, ...], Mapping[str, Any]] | None = None
        """The decrypted secrets of the newest suspension, once they have been opened."""

    def begin(self, pipe: Pipeline, ctx: CtxLayer, parent: LoopNode | None, scope: dict[str, Any]) -> PipelinePass:
        """Start a new pass over the pipeline. Tasks that the log records as done are folded into it and not run again."""
        history, tasks = self._activation.claim.history, self._activation.step.tasks
        pass_ = PipelinePass(pipe, tasks, ctx, parent)
        pipe.iter = scope
        events = history.tasks.pop(pipe.path, ())
        sealed_at = history.sealed_at.get(pipe.path, 0) if history.sealed is not None else -1
        for n, event in enumerate(events):
            if n == sealed_at:
                self._unseal(pass_)
            ctx.write(event.data.get("set_ctx") or {})
            fold(pipe, tasks, event)
        if sealed_at == len(events):
            self._unseal(pass_)
        return pass_

    def _unseal(self, pass_: PipelinePass) -> None:
        """Restore the secrets that a pass held when it was suspended. Secrets that cannot be decrypted stay undefined."""
        sealed = self._activation.claim.history.sealed
        if self._seals is None or sealed is None:
            return
        if self._opened is None:
            self._opened = self._seals.open(sealed)
            self._activation.values.tainted = True
        restore(pass_, self._opened.get(pass_.path, {}))

    def sealed(self, passes: list[PipelinePass]) -> str | None:
        """Return the secrets that unfinished passes hold, encrypted for the worker that resumes the run."""
        return self._seals.seal(passes) if self._seals is not None and self._activation.values.tainted else None

    def scope(self, pass_: PipelinePass) -> Scope:
        """Return the scope of a pass's templates. Arguments of the step that read the iterator are evaluated once per pass.
        Raises `TemplateError`."""
        activation = self._activation
        scope = activation.values.scope(pass_.ctx.view, pass_.iter)
        scope.blanks = pass_.attempt.blanks
        if not activation.step.each_args:
            return scope
        if pass_.args is None:
            pass_.args = activation.view.args  # the scope in which the failure is recorded
            pass_.args = args_of_pass(activation.step, activation.view.args, scope)
        return scope.over({"args": pass_.args})
