"""The keychain of a run: declared credentials, resolved in order when a template or a task reads one (docs/language/playbook.md).

The kind of an entry decides how it is resolved. Nothing resolved is cached here: the stores of credentials and tokens cache for
all
runs of the process, so that a run sees a credential that was replaced and a token that was renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from noetl_core.dsl.fields.keychain import SCOPES
from noetl_core.dsl.keychain_uses import entries_used, first_use
from noetl_core.dsl.model import KeychainEntry, Playbook
from noetl_core.expr import (
    CredentialFailed,
    CredentialRefused,
    Fields,
    NoCredential,
    Scope,
    Strict,
    TemplateError,
    render,
    reveal,
)
from noetl_core.expr.scope import Resolve
from noetl_core.ports import Forbidden, NotFound, ReadsSecrets
from noetl_core.tools.base import BadInput
from noetl_core.tools.grants import Grant, TokenRefused
from noetl_core.tools.http.execution_tokens import ExecutionTokens
from noetl_core.tools.masking.credential_fields import public_fields, wrapped
from noetl_core.tools.masking.scrub import Scrubber
from noetl_core.tools.oauth2 import grant_of
from noetl_core.tools.secrets import flat

_SINGLE_VALUE_FIELDS: Final = ("value", "secret", "token", "password", "api_key", "key")
"""Names of the field of a secret that holds a single value."""


class Keychain(Strict, Mapping[str, Any]):
    """`keychain.<name>.<field>` in templates: an entry is resolved when a template reads it, and its fields are secrets,
    except addresses and names (docs/access.md). `read` resolves entries for `auth` and similar inputs."""

    called = "the keychain"

    def __init__(
        self,
        playbook: Playbook,
        secrets: ReadsSecrets | None,
        tokens: ExecutionTokens | None = None,
        names: Mapping[str, Any] | None = None,
        resolve: Resolve | None = None,
        *,
        strict: bool = False,
    ) -> None:
        """`names` are the names that entries may read besides the entries above them; `resolve` loads references in them."""
        self._entries = {entry.name: entry for entry in playbook.keychain}
        self._playbook, self._secrets, self._tokens = playbook, secrets, tokens
        self._names, self._resolve, self._strict = names or {}, resolve, strict

    def __getitem__(self, name: str) -> Any:
        if name not in self._entries or self._secrets is None:
            raise KeyError(name)
        fields = Fields(f"keychain.{name}", self._resolved(name, lambda entry: self._fields(entry)))
        entry = self._entries[name]
        all_secret = entry.kind in ("bearer", "oauth2") or "map" in entry.options
        fields.update(wrapped(fields, frozenset() if all_secret else public_fields(fields.get("type"))))
        return fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, name: str) -> Mapping[str, Any]:
        """Return the credential that `auth` names: an entry of the keychain, or else a stored credential. An entry that gives an
        access token is returned as its grant, so that the tool that uses the token can renew it. Raises `KeyError`, `NotFound`,
        `Forbidden`, `BadInput`."""
        if self._secrets is None:
            raise KeyError(name)
        entry = self._entries.get(name)
        if entry is None:
            return self._secrets.get(name)
        try:
            return self._resolved(name, self._credential)
        except NoCredential as missing:
            raise NotFound(missing.message) from None
        except CredentialRefused as refused:
            raise Forbidden(refused.message) from None
        except TemplateError as error:
            raise BadInput(error.message) from None

    def check(self) -> None:
        """Resolve every entry that a task may read, without requesting tokens. Raises `TemplateError` for the first one that
        cannot be resolved."""
        if self._secrets is None:
            return
        used = entries_used(self._playbook)
        for name in self._entries:
            if name not in used:
                continue
            try:
                self._resolved(name, self._credential)
            except TemplateError as error:
                if reader := first_use(self._playbook, name):
                    error.message = f"{error.message} ({reader} reads it)"
                raise

    # --- entries by kind ------------------------------------------------------------------------------------------------

    def _resolved(self, name: str, resolve: Callable[[KeychainEntry], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the result of `resolve` for an entry; errors name the entry."""
        entry = self._entries[name]
        try:
            return resolve(entry)
        except NotFound as missing:
            raise NoCredential(f"{label(entry)}: {missing}") from None
        except Forbidden as refused:
            raise CredentialRefused(f"{label(entry)}: {refused}") from None
        except BadInput as wrong:
            message = str(wrong)
            raise CredentialFailed(message if label(entry) in message else f"{label(entry)}: {message}", "schema") from None
        except TokenRefused as unobtained:
            raise CredentialFailed(f"{label(entry)}: {unobtained.error.message}", _kind(unobtained)) from None

    def _credential(self, entry: KeychainEntry) -> Mapping[str, Any]:
        """Return an entry in the form of a stored credential, `{type, data}`."""
        if entry.kind in ("static", "secret_manager"):
            return {"data": self._fields(entry)}
        if entry.kind not in ("bearer", "oauth2"):
            return self._stored(entry, self._options(entry))
        options = self._options(entry)
        grant = self._grant_fields(entry, options)
        if grant is None:
            return {"type": "bearer", "data": self._token_of(entry, options)}
        grant_of(grant, label(entry), "local")  # reports mistakes here, where the entry is named
        return {"type": "oauth2", "data": grant}

    def _fields(self, entry: KeychainEntry) -> Mapping[str, Any]:
        options = self._options(entry)
        if entry.kind == "static":
            return _mapping(entry, options.get("data", {}))
        if entry.kind == "secret_manager":
            return self._secret(entry, options)
        if entry.kind in ("bearer", "oauth2"):
            return self._token(entry, options)
        return flat(self._stored(entry, options))

    def _options(self, entry: KeychainEntry) -> dict[str, Any]:
        """Return the rendered options of an entry; their templates may read the entries above it."""
        scope = Scope({**self._names, "keychain": _EarlierEntries(self, entry.name)}, resolve=self._resolve, strict=self._strict)
        rendered: dict[str, Any] = reveal(render(dict(entry.options), scope))
        return rendered

    def _stored(self, entry: KeychainEntry, options: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._secrets is not None
        name = options.get("credential", entry.name)
        if not isinstance(name, str) or not name:
            raise BadInput(f"`credential` of {label(entry)} must be the name of a stored credential")
        return self._secrets.get(name)

    def _secret(self, entry: KeychainEntry, options: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self._secrets is not None
        if "map" in options:
            several = _mapping(entry, options["map"])
            return {field: _single_value(flat(self._secrets.get(str(name))), str(name), field) for field, name in several.items()}
        fields = flat(self._stored(entry, options))
        field = options.get("field")
        if field is None:
            return fields
        if field not in fields:
            raise BadInput(f"{label(entry)}: its secret has no field {str(field)[:80]!r}: it has {', '.join(sorted(fields))}")
        return {str(field): fields[field], "value": fields[field]}

    def _grant_fields(self, entry: KeychainEntry, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the fields of the grant that an entry, alone or with a stored credential, describes; None for an entry that
        holds a token."""
        if "token" in options:
            return None
        stored: Mapping[str, Any] = {}
        if "credential" in options or not {"token_url", "client_id", "data", "json"} & options.keys():
            stored = flat(self._stored(entry, options))
        fields = {**stored, **{name: value for name, value in options.items() if name != "credential"}}
        is_token = entry.kind == "bearer" or stored.get("token") or stored.get("access_token")
        if "token_url" not in options and "token_url" not in stored and is_token:
            return None
        scope = fields.get("scope")
        if scope is not None and scope not in SCOPES:
            fields.setdefault("scopes", scope)
        fields["scope"] = scope if scope in SCOPES else "local"
        if entry.kind == "bearer" and "json" not in fields:
            fields.setdefault("data", {})
        return {**fields, "type": "oauth2"}

    def _token_of(self, entry: KeychainEntry, options: Mapping[str, Any]) -> Mapping[str, Any]:
        fields = {"token": options["token"]} if "token" in options else dict(flat(self._stored(entry, options)))
        token = fields.get("token") or fields.get("access_token")
        if not token:
            raise BadInput(f"{label(entry)}: its credential has no field `token`: it has {', '.join(sorted(fields))}")
        return {**fields, "token": token, "access_token": token}

    def _token(self, entry: KeychainEntry, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of an access token, which is requested if none is cached."""
        fields = self._grant_fields(entry, options)
        if fields is None:
            return self._token_of(entry, options)
        grant: Grant = grant_of(fields, label(entry), "local")
        if self._tokens is None:
            raise BadInput(f"{label(entry)}: this worker requests no tokens")
        try:
            token = self._tokens.wait(grant)
        except TokenRefused as refused:
            scrubber = Scrubber()  # a service may repeat the request in its answer
            scrubber.learn(fields)
            error = refused.error
            raise TokenRefused(type(error)(error.kind, scrubber.text(error.message), error.retryable, error.code)) from None
        return {**token.fields, "token": token.value, "access_token": token.value}


class _EarlierEntries(Strict, Mapping[str, Any]):
    """The keychain as the templates of one entry see it: the entries above it."""

    called = "the keychain above this entry"

    def __init__(self, keychain: Keychain, name: str) -> None:
        names = list(keychain)
        self._keychain, self._above = keychain, frozenset(names[: names.index(name)])

    def __getitem__(self, name: str) -> Any:
        if name not in self._above:
            raise KeyError(name)
        return self._keychain[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._keychain if name in self._above)

    def __len__(self) -> int:
        return len(self._above)


def label(entry: KeychainEntry) -> str:
    """Return the name of an entry in messages, with which the error of a missing credential begins."""
    return f'keychain entry "{entry.name}"'


def _mapping(entry: KeychainEntry, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInput(f"{label(entry)} must be a mapping of names to values, not {type(value).__name__}")
    return value


def _single_value(fields: Mapping[str, Any], secret: str, field: str) -> Any:
    """Return the only value of a secret, for the entry's `field`. Raises `BadInput`."""
    values = {name: value for name, value in fields.items() if name != "type"}
    if len(values) == 1:
        return next(iter(values.values()))
    for name in (field, *_SINGLE_VALUE_FIELDS):
        if name in values:
            return values[name]
    raise BadInput(f"secret {secret!r} has several fields and none called {field!r}: it has {', '.join(sorted(values))}")


def _kind(refused: TokenRefused) -> Any:
    known: Sequence[str] = ("auth", "timeout", "connection", "rate_limit", "server_error", "client_error", "not_found", "parse")
    return refused.error.kind if refused.error.kind in known else "unknown"
