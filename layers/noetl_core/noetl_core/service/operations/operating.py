"""Changes one execution, or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from noetl_core.api.refused import BadRequest, execution_id, within
from noetl_core.api.requests.operating import (
    CancelExecution,
    OperateBatch,
    PauseExecution,
    RedriveExecution,
    ResumeExecution,
    SendSignal,
)
from noetl_core.control.lifecycle import operate
from noetl_core.control.lifecycle.redrive import redrive
from noetl_core.engine.redrive.plan import From, Redrive
from noetl_core.engine.waits import BY_TOKEN
from noetl_core.service import batch
from noetl_core.service.operations.base import Operations
from noetl_core.service.requested_versions import path_and_version
from noetl_core.views.executions import executions

if TYPE_CHECKING:
    from noetl_core.api.shapes.executions import Operated, Redriven, RedrivePlan
    from noetl_core.api.shapes.following import Batch
    from noetl_core.engine.state import State


@CancelExecution.answered
def cancel_execution(on: Operations, request: CancelExecution) -> Operated:
    reason, compensate = request.reason or "", bool(request.compensate)
    return operated(operate.cancel(on.control(), request.execution_id, reason, compensate=compensate))


@PauseExecution.answered
def pause_execution(on: Operations, request: PauseExecution) -> Operated:
    return operated(operate.pause(on.control(), request.execution_id))


@ResumeExecution.answered
def resume_execution(on: Operations, request: ResumeExecution) -> Operated:
    return operated(operate.resume(on.control(), request.execution_id))


@RedriveExecution.answered
def redrive_execution(on: Operations, request: RedriveExecution) -> Redriven:
    """Redrive an ended execution. Raises the errors of `redrive`."""
    _, version = path_and_version("", request.version)
    begin = None if request.begin is None else From.parse(request.begin)
    done = redrive(
        on.control(),
        request.execution_id,
        Redrive(begin, dict(request.ctx or {}), dict(request.args or {})),
        source=request.playbook,
        version=version,
        preview=bool(request.preview),
        registers=on.registers,
    )
    return {**operated(done.state), "redrive": cast("RedrivePlan", done.description)}


@OperateBatch.answered
def operate_batch(on: Operations, request: OperateBatch) -> Batch:
    which, options = request.filter, request.arguments or {}
    ids = which.get("ids")
    selection = batch.Selection(
        None if ids is None else [execution_id(each) for each in ids],
        which.get("status"),
        which.get("path"),
        which.get("since"),
        which.get("until"),
        which.get("label"),
    )
    arguments = batch.Arguments(options.get("reason"), options.get("compensate"), options.get("from"))
    limit = batch.DEFAULT_LIMIT if request.limit is None else within("limit", request.limit, 1, batch.MAX_LIMIT)
    return batch.batch(
        on.control(),
        on.cursor_key,
        selection,
        request.action,
        arguments,
        preview=bool(request.preview),
        limit=limit,
        cursor=request.cursor,
    )


@SendSignal.answered
def send_signal(on: Operations, request: SendSignal) -> Operated:
    execution = execution_id(request.execution_id)
    if request.name.startswith(BY_TOKEN):
        raise BadRequest(
            f"signal names that begin with {BY_TOKEN!r} are reserved for answers by token", "body.name", "POST /api/callbacks"
        )
    return operated(operate.signal(on.control(), execution, request.name, request.data, request.signal_id))


def operated(state: State) -> Operated:
    """Return the state of the execution after an operation."""
    return cast("Operated", {"execution_id": state.execution_id, "status": executions.status_of(state)})
