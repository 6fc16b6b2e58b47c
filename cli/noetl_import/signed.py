"""Translates integrations of services that have no kind of their own, but speak JSON: a signed request of kind `http`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl_import.findings import Notes

SERVICES: Final[Mapping[str, tuple[str, str]]] = {
    "athena": ("AmazonAthena", "1.1"),
    "comprehend": ("Comprehend_20171127", "1.1"),
    "dynamodb": ("DynamoDB_20120810", "1.0"),
    "glue": ("AWSGlue", "1.1"),
    "kms": ("TrentService", "1.1"),
    "rekognition": ("RekognitionService", "1.1"),
    "ssm": ("AmazonSSM", "1.1"),
    "textract": ("Textract", "1.1"),
    "transcribe": ("Transcribe", "1.1"),
    "translate": ("AWSShineFrontendService_20170701", "1.1"),
}
"""The prefix of the target of a service, and the version of its JSON. Their members have the same names as in Step Functions."""


def is_signed(name: str) -> bool:
    return name.partition(":")[0] in SERVICES


def request(name: str, body: Any, notes: Notes) -> dict[str, Any]:
    """Return the inputs of a request for `SERVICE:ACTION`."""
    service, _, action = name.partition(":")
    target, version = SERVICES[service]
    notes.attention(
        f"{name} is a signed request: it needs the Region and keys, and its times are numbers",
        "pass --set AWS_REGION=..., and store the credential aws_keys (access_key_id, secret_access_key)",
        "/Resource",
    )
    return {
        "method": "POST",
        "url": f"https://{service}.${{AWS_REGION}}.amazonaws.com/",
        "headers": {
            "X-Amz-Target": f"{target}.{action[:1].upper()}{action[1:]}",
            "Content-Type": f"application/x-amz-json-{version}",
        },
        "json": body,
        "auth": {"type": "aws", "service": service, "region": "${AWS_REGION}", "credential": "aws_keys"},
    }
