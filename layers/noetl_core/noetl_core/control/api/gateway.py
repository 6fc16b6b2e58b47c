"""API Gateway proxy events to requests, answers to proxy responses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from noetl_core.control.api.call import Call, Service, cursor_key
from noetl_core.control.api.callers import Rights
from noetl_core.control.api.dispatch import dispatch, pattern
from noetl_core.control.core import Control
from noetl_core.ports import TooLarge

CSP = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""Answers are data: what a browser makes of them runs nothing."""
PLAIN = {"X-Content-Type-Options": ["nosniff"], "Content-Security-Policy": [CSP], "Cache-Control": ["no-store"]}


MAX_ANSWER = 6 * 1024 * 1024 - 64 * 1024
"""What a function may answer API Gateway with, less its headers."""


class Api:
    """The routes behind API Gateway (REST)."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def route(self, event: dict[str, Any]) -> str:
        """The pattern of the route that answers a proxy event, to be logged."""
        return pattern(event["httpMethod"], event["path"])

    def resolve(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Answer one proxy event."""
        call = Call(
            service=self.service,
            method=event["httpMethod"],
            path=event["path"],
            query=event.get("queryStringParameters") or {},
            headers={k.lower(): v for k, v in (event.get("headers") or {}).items()},
            body=event.get("body") or "",
            base64=bool(event.get("isBase64Encoded")),
            caller=event.get("requestContext") or {},
            request_id=getattr(context, "aws_request_id", ""),
        )
        answer = dispatch(call)
        text = answer.text()
        if len(text.encode("utf-8", "replace")) > MAX_ANSWER:
            from noetl_core.control.api.errors import refusal

            large = TooLarge(f"the answer exceeds {MAX_ANSWER} bytes; ask for a part of it (limit, name, step)")
            answer = refusal(large, call.request_id)
            text = answer.text()
        return {
            "statusCode": int(answer.status),
            "multiValueHeaders": {"Content-Type": [answer.content_type], **PLAIN},
            "body": text,
            "isBase64Encoded": False,
        }


def build_resolver(control: Callable[[], Control]) -> Api:
    """The API over a control plane, without credentials: those are another function's."""
    facts = json.loads(os.environ.get("RUNTIME_FACTS", "{}"))
    return Api(Service(control, cursor_key(control), facts=facts, rights=Rights.from_environment()))
