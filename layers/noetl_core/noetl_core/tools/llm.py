"""`kind: llm`: one completion from a language model behind an OpenAI-compatible chat endpoint (docs/tools/llm.md).

Requests go through `tools.http.tool`: its addresses, credentials, time limits and errors. Result: `{text, data, model,
finish_reason, usage {input_tokens, output_tokens}, tool_calls?}`; `data` is present if a `schema` is given. `outcome.meta.llm
{model, input_tokens, output_tokens, usd?}` is the usage, also of failed tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.calls.event_loop import EventLoop
from noetl_core.tools.services import ServiceTool, service_auth
from noetl_core.values import strict_json
from noetl_core.values.json_schema import BadSchema, check_schema, problems

DEFAULT_TIMEOUT_S: Final = 600.0
CONNECT_S: Final = 10.0
PATH: Final = "/chat/completions"
OWN: Final = frozenset({"model", "messages", "temperature", "max_tokens", "response_format", "stream"})
"""Fields of the request that are inputs of this kind, or would make the answer unreadable."""
NOT_FOR_HTTP: Final = frozenset({"base_url", "model", "price"})
"""Fields of a credential that this kind reads."""
ASKED: Final = "Answer with JSON alone, without any other text. It must fit this JSON Schema:\n"
AGAIN: Final = "That answer does not fit: {wrong}. Answer once more, with JSON alone that fits the schema."
TOLD: Final = 500
_FENCED: Final = re.compile(r"\A\s*```(?:json)?\s*\n(.*)\n\s*```\s*\Z", re.DOTALL)
_MESSAGE: Final = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)')
_TOO_LONG: Final = re.compile(r"context.{0,20}(length|window|size)|too many (input )?tokens|prompt is too long", re.IGNORECASE)
_NO_QUOTA: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


@dataclass(slots=True)
class Used:
    """The usage of the answers of one task."""

    model: str
    price: tuple[float, float] | None
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, answer: Mapping[str, Any]) -> None:
        usage = answer.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        self.model = str(answer.get("model") or self.model)
        self.input_tokens += _tokens(usage, "prompt_tokens", "input_tokens")
        self.output_tokens += _tokens(usage, "completion_tokens", "output_tokens")

    @property
    def tokens(self) -> dict[str, int]:
        return {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}

    def as_dict(self) -> dict[str, Any]:
        """Return the record: with `usd` where there is a price."""
        record: dict[str, Any] = {"model": self.model, **self.tokens}
        if self.price is not None:
            record["usd"] = round((self.input_tokens * self.price[0] + self.output_tokens * self.price[1]) / 1e6, 9)
        return record


@dataclass(frozen=True, slots=True)
class Question:
    """The request, and its service."""

    call: ToolCall
    """The `http` call that makes the request; its body lacks the messages."""
    body: Mapping[str, Any]
    messages: list[Any]
    schema: Mapping[str, Any] | None
    repair: bool
    used: Used = field(hash=False)

    def call_with(self, messages: list[Any], number: int) -> ToolCall:
        """Return the request for an answer. Its key is that of the attempt: a repeated request wants another answer."""
        headers = {"Idempotency-Key": f"{self.call.task_run_id}-{self.call.attempt}-{number}"}
        return replace(self.call, inputs={**self.call.inputs, "headers": headers, "json": {**self.body, "messages": messages}})


class LlmTool(ServiceTool):
    """Inputs `url`, `auth`, `model`, one of `messages` and `prompt`, `system`, `temperature`, `max_tokens`, `schema`, `options`;
    spec `price`, `repair`, `format`."""

    kind = "llm"

    async def answer(self, call: ToolCall, loop: EventLoop) -> Outcome:
        question = read_question(call)
        messages, number = question.messages, 1
        while True:
            answered = await self._http.answer(question.call_with(messages, number), loop)
            outcome, text, wrong = _read(answered, question)
            if not wrong or number > 1 or not question.repair:
                return _measured(outcome, question.used)
            call.log(f"the answer does not fit: {wrong}; asking once more", "stderr")
            messages = [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": AGAIN.format(wrong=wrong)}]
            number += 1


def read_question(call: ToolCall) -> Question:
    """Return the request of a call. Raises `BadInput`."""
    inputs, spec = call.inputs, call.spec
    auth, own = service_auth(call, NOT_FOR_HTTP)
    url, model = inputs.get("url") or own.get("base_url"), inputs.get("model") or own.get("model")
    if not isinstance(url, str):
        raise BadInput("`url` must be the address of the service, or `auth` a credential with a `base_url`")
    if not isinstance(model, str):
        raise BadInput("`model` must name a model, or `auth` a credential that has it")
    options = inputs.get("options") or {}
    if not isinstance(options, Mapping) or OWN & options.keys():
        taken = f": it cannot hold {min(OWN & options.keys())}" if isinstance(options, Mapping) else ""
        raise BadInput(f"`options` must be a mapping of further fields of the request{taken}")
    schema, messages = inputs.get("schema"), _messages(inputs)
    body: dict[str, Any] = {"model": model, **options}
    body |= {name: inputs[name] for name in ("temperature", "max_tokens") if inputs.get(name) is not None}
    if schema is not None:
        messages = _with_schema(messages, body, schema, spec.get("format", "json_schema"))
    address = url.rstrip("/")
    total = DEFAULT_TIMEOUT_S if call.timeout_s is None else call.timeout_s
    limits = spec.get("timeout")
    timeout = {"connect": CONNECT_S, "read": total, "total": total, **(limits if isinstance(limits, Mapping) else {})}
    asks = replace(
        call,
        kind="http",
        inputs={"method": "POST", "url": address if address.endswith(PATH) else address + PATH, **auth},
        spec={name: spec[name] for name in ("verify", "max_response_bytes") if name in spec} | {"timeout": timeout},
        timeout_s=total,
    )
    repair = schema is not None and spec.get("repair", True) is not False
    return Question(asks, body, messages, schema, repair, Used(model, _price(spec.get("price") or own.get("price"))))


def _messages(inputs: Mapping[str, Any]) -> list[Any]:
    system = [{"role": "system", "content": inputs["system"]}] if inputs.get("system") is not None else []
    if inputs.get("messages") is None:
        if not isinstance(inputs.get("prompt"), str):
            raise BadInput("`prompt` must be text")
        return [*system, {"role": "user", "content": inputs["prompt"]}]
    messages = inputs["messages"]
    if not isinstance(messages, list) or not messages:
        raise BadInput("`messages` must be a list of {role, content}")
    for n, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise BadInput(f"`messages[{n}]` must be a mapping with a `role`")
    return [*system, *messages]


def _with_schema(messages: list[Any], body: dict[str, Any], schema: Any, form: Any) -> list[Any]:
    """Pass the schema to the service: in `body`, or in the messages, which are returned."""
    try:
        check_schema(schema)
    except BadSchema as error:
        raise BadInput(str(error)) from None
    if form == "json_schema":
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        return messages
    if form not in ("json_object", "text"):
        raise BadInput(f"`spec.format` {str(form)[:40]!r} is unknown: json_schema, json_object or text")
    if form == "json_object":
        body["response_format"] = {"type": "json_object"}
    return [{"role": "system", "content": ASKED + json.dumps(schema, ensure_ascii=False)}, *messages]


def _price(price: Any) -> tuple[float, float] | None:
    if price is None:
        return None
    try:
        each = float(price["input_per_million"]), float(price["output_per_million"])
    except (TypeError, KeyError, ValueError):
        each = (-1.0, -1.0)
    if not all(0 <= number < 1e9 for number in each):
        raise BadInput("`price` must be {input_per_million, output_per_million}: US dollars for a million tokens")
    return each


def _read(answered: Outcome, question: Question) -> tuple[Outcome, str, str]:
    """Return the outcome, the model's text, and how it fails to match the schema."""
    if answered.error is not None:
        return _refused(answered), "", ""
    answer = answered.result["data"]
    choice = _choice(answer)
    if choice is None:
        return Outcome.failed("parse", "llm: the answer of the service is not a chat completion", retryable=False), "", ""
    question.used.add(answer)
    message, finish = choice["message"], choice.get("finish_reason")
    text = message.get("content")
    text = text if isinstance(text, str) else ""
    if message.get("refusal"):
        refusal = str(message["refusal"])[:TOLD]
        return Outcome.failed("client_error", f"llm: the model refuses: {refusal}", retryable=False, code="refusal"), "", ""
    used = question.used
    result: dict[str, Any] = {"text": text, "model": used.model, "finish_reason": finish, "usage": used.tokens}
    if message.get("tool_calls"):
        result["tool_calls"] = message["tool_calls"]
    if question.schema is None:
        return Outcome.ok(result), text, ""
    if finish == "length":
        cut = "llm: the answer was cut off: it is longer than `max_tokens`, or than the model allows"
        return Outcome.failed("limit", cut, retryable=False, code="length"), "", ""
    try:
        fenced = _FENCED.match(text)
        data = strict_json.loads(fenced[1] if fenced else text)
    except ValueError as error:
        wrong = f"it is not JSON: {error}"
        return Outcome.failed("parse", f"llm: the answer does not fit the schema: {wrong}", retryable=True), text, wrong
    wrong = "; ".join(problems(data, question.schema))
    if wrong:
        return Outcome.failed("schema", f"llm: the answer does not fit the schema: {wrong}", retryable=True), text, wrong
    return Outcome.ok({**result, "data": data}), text, ""


def _choice(answer: Any) -> Mapping[str, Any] | None:
    """Return the first choice of an answer, if it is one of a chat."""
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) and isinstance(first.get("message"), Mapping) else None


def _refused(answered: Outcome) -> Outcome:
    """Return the failure of a request in this kind's terms: the service's message, and its meaning."""
    error = answered.error
    assert error is not None
    details = dict(error.details) if isinstance(error.details, Mapping) else {}
    reason, code = _service_error(str(details.get("body", "")))
    helpers = answered.helpers
    retry_after = details.get("retry_after", helpers.get("http", {}).get("retry_after"))
    if retry_after is not None:
        details["retry_after"] = retry_after
    message = f"llm: {reason}" if reason else error.message
    kind, retryable, name = error.kind, error.retryable, code or error.code
    too_long = code == "context_length_exceeded" or _TOO_LONG.search(reason) is not None
    if error.code == 413 or (too_long and kind in ("client_error", "not_found")):
        kind, retryable, name = "limit", False, "context_length"
    elif kind == "rate_limit" and code in _NO_QUOTA:
        retryable = False
    changed = replace(error, kind=kind, message=message, retryable=retryable, code=name, details=details or None)
    return replace(answered, error=changed)


def _service_error(body: str) -> tuple[str, str]:
    """Return the message and the code of an error of the service, of a body that may be cut off."""
    try:
        found = json.loads(body)
        found = found.get("error", found) if isinstance(found, Mapping) else {}
        if isinstance(found, Mapping):
            return str(found.get("message") or "")[:TOLD], str(found.get("code") or found.get("type") or "")[:64]
        return str(found)[:TOLD], ""
    except ValueError:
        match = _MESSAGE.search(body)
        return (match[1] if match else "")[:TOLD], ""


def _measured(outcome: Outcome, used: Used) -> Outcome:
    """Return the outcome with its usage, if there was an answer."""
    if not (used.input_tokens or used.output_tokens):
        return outcome
    return replace(outcome, meta={**outcome.meta, "llm": used.as_dict()})


def _tokens(usage: Mapping[str, Any], *names: str) -> int:
    found = next((usage[name] for name in names if name in usage), 0)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0
