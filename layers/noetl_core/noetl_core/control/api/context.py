"""Routes that show what an execution's values are: ctx, and what a template would give."""

from __future__ import annotations

import json
from typing import Any

from noetl_core.control import read
from noetl_core.control.api.call import Call, Field, Route, execution_id
from noetl_core.control.render import render_context
from noetl_core.ports import TooLarge


def ctx(call: Call) -> dict[str, Any]:
    return {"execution_id": call.execution_id, "ctx": read.load(call.control, call.execution_id).ctx}


def render(call: Call) -> dict[str, Any]:
    body = call.object()
    value = render_context(call.control, execution_id(body["execution_id"]), body["template"], body.get("step"))
    if len(json.dumps(value, default=str)) > read.MAX_PAGE_BYTES:
        raise TooLarge(f"what the template gives exceeds {read.MAX_PAGE_BYTES} bytes")
    return {"value": value}


ROUTES = (
    Route("GET", "/api/vars/{execution_id}", "ctx of an execution", ctx, right="executions:read"),
    Route(
        "POST",
        "/api/context/render",
        "What a template would give, without secrets",
        render,
        body={
            "execution_id": Field(str, "whose workload, ctx and steps it reads", required=True),
            "template": Field(object, "text with templates, or data that holds such", required=True),
            "step": Field(str, "whose args and event it reads too"),
        },
        refuses=(404, 422),
        right="executions:read",
    ),
)
