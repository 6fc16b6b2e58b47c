"""`kind: email`: sends mail with SES (docs/tools/email.md)."""

from __future__ import annotations

import mimetypes
from base64 import b64decode
from collections.abc import Mapping
from email.headerregistry import Address, HeaderRegistry
from email.utils import formataddr
from typing import Any, Final

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.actions import action_of, optional_text, text
from noetl_core.tools.aws import rights
from noetl_core.tools.aws.clients import client
from noetl_core.tools.aws.errors import errors_of
from noetl_core.tools.aws.rights import SENDERS
from noetl_core.tools.base import BadInput, ToolCall
from noetl_core.tools.store import encode

MAX_BYTES: Final = 28 * 1024 * 1024
"""The most bytes of texts and attachments: SES takes messages of 40 MB, including the base64 encoding."""
MAX_RECIPIENTS: Final = 50
ANSWER_S: Final = 30
"""The timeout of a request (seconds). It is not retried, because the mail may have been sent."""
FORMATS: Final = ("text", "base64", "json", "jsonl", "csv")
_OF_ATTACHMENT: Final = frozenset({"name", "data", "format", "content_type"})


class EmailTool:
    """Inputs `from`, `to`, `cc`, `bcc`, `reply_to`, `subject`, `text`, `html` and `attachments`."""

    kind = "email"
    inline = False

    def run(self, call: ToolCall) -> Outcome:
        action_of(call)
        sender, address = one_address(text(call, "from"), "from")
        to = {name: _addresses(call, name) for name in ("to", "cc", "bcc", "reply_to")}
        recipients = to["to"] + to["cc"] + to["bcc"]
        if not recipients:
            raise BadInput("a mail needs recipients in `to`, `cc` or `bcc`")
        if len(recipients) > MAX_RECIPIENTS:
            reason = f"email: {len(recipients)} recipients, and SES takes at most {MAX_RECIPIENTS} for one mail"
            return Outcome.failed("limit", reason, retryable=False)
        rights.check(SENDERS, address)
        message = _message(call)
        size = _size(message)
        if size > MAX_BYTES:
            reason = (
                f"email: texts and attachments have {size:,} bytes, the limit is {MAX_BYTES:,}: send a link (s3, action presign)"
            )
            return Outcome.failed("limit", reason, retryable=False)
        with errors_of(call.kind, SENDERS, address):
            answer = client("sesv2", optional_text(call, "region"), ANSWER_S).send_email(
                FromEmailAddress=sender,
                Destination={"ToAddresses": to["to"], "CcAddresses": to["cc"], "BccAddresses": to["bcc"]},
                ReplyToAddresses=to["reply_to"],
                Content={"Simple": message},
            )
        return Outcome.ok({"message_id": answer["MessageId"], "recipients": len(recipients)})


def one_address(written: Any, name: str) -> tuple[str, str]:
    """Return one address in header form, and without the name before it. Raises `BadInput`."""
    found = _read(written) if isinstance(written, str) and written.isprintable() else ()
    if len(found) == 1 and found[0].username and found[0].domain and found[0].addr_spec.isascii():
        return formataddr((found[0].display_name, found[0].addr_spec)), found[0].addr_spec
    raise BadInput(f"`{name}` must be an address such as `ann@example.org` or `Ann <ann@example.org>`, not {written!r:.80}")


def _read(written: str) -> tuple[Address, ...]:
    """Return the addresses of a header; none if it is malformed."""
    header: Any = HeaderRegistry()("from", written)
    found: tuple[Address, ...] = () if header.defects else header.addresses
    return found


def _addresses(call: ToolCall, name: str) -> list[str]:
    value = call.inputs.get(name)
    if value is None:
        return []
    return [one_address(each, name)[0] for each in (value if isinstance(value, list) else [value])]


def _message(call: ToolCall) -> dict[str, Any]:
    """Return the mail in SES's form. Raises `BadInput`."""
    subject = text(call, "subject")
    if not subject.isprintable():
        raise BadInput("`subject` must be one line")
    bodies = {"Text": optional_text(call, "text"), "Html": optional_text(call, "html")}
    attachments = call.inputs.get("attachments") or []
    if not isinstance(attachments, list):
        raise BadInput("`attachments` must be a list")
    return {
        "Subject": {"Data": subject, "Charset": "UTF-8"},
        "Body": {name: {"Data": body, "Charset": "UTF-8"} for name, body in bodies.items() if body is not None},
        "Attachments": [_attachment(each) for each in attachments],
    }


def _attachment(file: Any) -> dict[str, Any]:
    if not isinstance(file, Mapping) or not {"name", "data"} <= set(file) <= _OF_ATTACHMENT:
        raise BadInput(
            f"an attachment is a mapping with `name` and `data`, and optionally `format` and `content_type`, not {file!r:.80}"
        )
    name, content_type = file["name"], file.get("content_type")
    if not isinstance(name, str) or not name.isprintable() or not name or "/" in name or "\\" in name:
        raise BadInput(f"`name` of an attachment must be the name of a file, not {name!r:.80}")
    if content_type is not None and not (isinstance(content_type, str) and content_type.isprintable()):
        raise BadInput(f"`content_type` of an attachment must be text such as `text/csv`, not {content_type!r:.80}")
    return {
        "FileName": name,
        "ContentType": content_type or mimetypes.guess_type(name)[0] or "application/octet-stream",
        "ContentDisposition": "ATTACHMENT",
        "RawContent": _content(name, file["data"], file.get("format")),
    }


def _content(name: str, data: Any, form: Any) -> bytes:
    """Return the bytes of an attachment: text is written as it is, anything else in `form`. Raises `BadInput`."""
    if form is None:
        ending = name.rpartition(".")[2].lower()
        form = "text" if isinstance(data, str) else ending if ending in FORMATS else "json"
    if form not in FORMATS:
        raise BadInput(f"`format` of an attachment is one of {', '.join(FORMATS)}, not {form!r:.40}")
    try:
        if form == "base64":
            return b64decode(data, validate=True)
        if form == "text" and not isinstance(data, str):
            raise TypeError("it is not text")
        return data.encode() if form == "text" else encode(data, form)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"`data` of the attachment {name!r:.80} cannot be written as {form}: {error}") from None


def _size(message: Mapping[str, Any]) -> int:
    bodies = sum(len(body["Data"].encode()) for body in message["Body"].values())
    return bodies + sum(len(each["RawContent"]) for each in message["Attachments"])
