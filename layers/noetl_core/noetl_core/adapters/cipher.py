"""AES-256-GCM for both sealers: a new nonce each time; the context is authenticated with the content."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from noetl_core.ports import CorruptLog

NONCE_BYTES = 12


def encrypt(key: bytes, plain: bytes, context: Mapping[str, str]) -> bytes:
    """Return nonce and cipher text."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 10 ms: only runs with secrets need it

    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, _bound(context))


def decrypt(key: bytes, sealed: bytes, context: Mapping[str, str]) -> bytes:
    """Return the plain text of a value that `encrypt` returned. Raises `CorruptLog`."""
    from cryptography.exceptions import InvalidTag  # 10 ms, with the next
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _bound(context))
    except (InvalidTag, ValueError) as error:
        raise CorruptLog(
            "a sealed value cannot be decrypted: it was changed, or sealed with another key or for another place"
        ) from error


def _bound(context: Mapping[str, str]) -> bytes:
    return json.dumps(context, sort_keys=True).encode()
