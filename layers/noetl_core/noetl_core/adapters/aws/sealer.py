"""Encryption under data keys of KMS: each sealed value carries its own encrypted data key, and KMS logs who decrypts it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping

from botocore.exceptions import ClientError

from noetl_core.adapters.aws.clients import client, code_of, errors_of
from noetl_core.adapters.cipher import decrypt, encrypt
from noetl_core.ports import CorruptLog

BROKEN = frozenset({"InvalidCiphertextException", "IncorrectKeyException", "ValidationException", "AccessDeniedException"})
"""Errors that a retry does not cure: an operator must act."""


class KmsSealer:
    """`Sealer` under the KMS key `key_id` (id or ARN); the context is also the encryption context of KMS."""

    def __init__(self, key_id: str) -> None:
        self._key_id = key_id

    def seal(self, plain: bytes, context: Mapping[str, str]) -> str:
        with errors_of("sealing a value"):
            data_key = client("kms").generate_data_key(KeyId=self._key_id, KeySpec="AES_256", EncryptionContext=dict(context))
        parts = {"key": data_key["CiphertextBlob"], "box": encrypt(data_key["Plaintext"], plain, context)}
        return json.dumps({name: b64encode(part).decode() for name, part in parts.items()}, separators=(",", ":"))

    def open(self, sealed: str, context: Mapping[str, str]) -> bytes:
        try:
            parts = {name: b64decode(part, validate=True) for name, part in json.loads(sealed).items()}
            blob, box = parts["key"], parts["box"]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise CorruptLog("a sealed value cannot be decrypted: it was changed") from error
        try:
            with errors_of("opening a sealed value"):
                key = client("kms").decrypt(KeyId=self._key_id, CiphertextBlob=blob, EncryptionContext=dict(context))
        except ClientError as error:
            if code_of(error) in BROKEN:
                raise CorruptLog(
                    "a sealed value cannot be decrypted: it was changed, or sealed with another key or for another place"
                ) from error
            raise
        return decrypt(key["Plaintext"], box, context)
