"""Encryption on this machine, under a key that is stored beside the store."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping

from noetl_core.adapters.cipher import decrypt, encrypt
from noetl_core.ports import CorruptLog


class LocalSealer:
    """`Sealer` with one key of 32 bytes."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def seal(self, plain: bytes, context: Mapping[str, str]) -> str:
        return b64encode(encrypt(self._key(), plain, context)).decode()

    def open(self, sealed: str, context: Mapping[str, str]) -> bytes:
        try:
            raw = b64decode(sealed, validate=True)
        except ValueError as error:
            raise CorruptLog("a sealed value cannot be decrypted: it was changed") from error
        return decrypt(self._key(), raw, context)
