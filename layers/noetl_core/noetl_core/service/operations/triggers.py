"""Answers requests about triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl_core.api.requests.triggers import (
    DisableTrigger,
    EnableTrigger,
    FireRefused,
    FireTrigger,
    ForgetRefused,
    GetTrigger,
    ListRefused,
    ListTriggers,
)
from noetl_core.control.triggers import operate
from noetl_core.service.operations.base import Operations

if TYPE_CHECKING:
    from noetl_core.api.shapes.triggers import Firing, Forgotten, RefusedDeliveries, Trigger, TriggerDetails, Triggers


@ListTriggers.answered
def list_triggers(on: Operations, request: ListTriggers) -> Triggers:
    return {"triggers": operate.listed(on.control(), request.path, request.kind)}


@GetTrigger.answered
def get_trigger(on: Operations, request: GetTrigger) -> TriggerDetails:
    return operate.described(on.control(), request.path, request.name)


@EnableTrigger.answered
def enable_trigger(on: Operations, request: EnableTrigger) -> Trigger:
    return operate.switch(on.control(), request.path, request.name, on=True)


@DisableTrigger.answered
def disable_trigger(on: Operations, request: DisableTrigger) -> Trigger:
    return operate.switch(on.control(), request.path, request.name, on=False)


@FireTrigger.answered
def fire_trigger(on: Operations, request: FireTrigger) -> Firing:
    return operate.fire(on.control(), request.path, request.name, request.at, request.idempotency_key, request.event)


@ListRefused.answered
def list_refused(on: Operations, request: ListRefused) -> RefusedDeliveries:
    return {"refused": operate.list_refused(on.control(), request.path, request.limit)}


@FireRefused.answered
def fire_refused(on: Operations, request: FireRefused) -> Firing:
    return operate.fire_refused(on.control(), request.id)


@ForgetRefused.answered
def forget_refused(on: Operations, request: ForgetRefused) -> Forgotten:
    operate.forget_refused(on.control(), request.id)
    return {"id": request.id, "deleted": True}
