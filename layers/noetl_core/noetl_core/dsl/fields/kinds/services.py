"""The kinds that call services with a known protocol."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.kind import BYTES, COUNT, FLAG, MAP, SERVICE_ERRORS, TEXT, Action, KindSpec, words
from noetl_core.dsl.fields.types import Anything, Choice, Field

_AUTH: Final = Field("auth", Anything("a name or a mapping"), "The credential to use: its name, or `type` and its fields.")
_URL: Final = Field("url", TEXT, "The address of the service.", otherwise="`base_url` of the credential")
_VERIFY: Final = Field("verify", FLAG, "false accepts any certificate.", default=True)
_BYTES: Final = Field("max_response_bytes", BYTES, "Maximum bytes of an answer.", default=64 * 1024 * 1024)

KINDS: Final[dict[str, KindSpec]] = {
    "llm": KindSpec(
        (
            _URL,
            _AUTH,
            Field("model", TEXT, "The model that answers.", otherwise="`model` of the credential"),
            Field("messages", Anything("a list"), "The conversation: mappings `{role, content}`."),
            Field("prompt", TEXT, "A single user message, instead of `messages`."),
            Field("system", TEXT, "The system prompt."),
            Field("temperature", Anything("a number"), "The sampling temperature.", otherwise="that of the service"),
            Field("max_tokens", COUNT, "Maximum tokens of the answer.", otherwise="the service's default"),
            Field(
                "schema",
                MAP,
                "What the answer must be, in the subset of JSON Schema that `x-schema` uses; the answer is `data` of the result.",
            ),
            Field("options", MAP, "Further fields of the request, such as `seed`, `stop` or `tools`."),
        ),
        (
            Field(
                "price",
                Anything("`{input_per_million, output_per_million}`"),
                "US dollars per million tokens, for `noetl cost`.",
                otherwise="`price` of the credential",
            ),
            Field("repair", FLAG, "true asks once more if an answer does not fit `schema`, stating why.", default=True),
            Field(
                "format",
                Choice(("json_schema", "json_object", "text"), template=True),
                "How the schema is passed to the service: as `response_format`, or as text in a system message.",
                default="json_schema",
            ),
            _VERIFY,
            _BYTES,
        ),
        "../tools/llm.md",
        required=(words("messages prompt"),),
        exclusive=(words("messages prompt"),),
        fails=SERVICE_ERRORS,
    ),
    "mcp": KindSpec(
        (
            Field(
                "action",
                Choice(("call", "list"), template=True),
                "What to do: call a tool, or list the available ones.",
                default="call",
            ),
            _URL,
            _AUTH,
            Field("tool", TEXT, "The name of the tool that `call` calls."),
            Field("arguments", MAP, "The arguments of the tool."),
            Field("headers", MAP, "Headers of every request, in addition to those of the protocol."),
        ),
        (_VERIFY, _BYTES),
        "../tools/mcp.md",
        actions={
            "call": Action((words("tool"),), words("arguments url auth headers")),
            "list": Action((), words("url auth headers")),
        },
        fails=SERVICE_ERRORS,
    ),
}
