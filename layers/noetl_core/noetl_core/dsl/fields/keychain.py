"""The entries of the keychain: the common fields, and the fields of each kind.

Any other kind is the author's own label: its entry names a stored credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl_core.dsl.fields.types import Anything, Block, Choice, Duration, Field, Flag, Name, Prose, Text, Values, also, another
from noetl_core.dsl.numbers import DELAY

PAGE: Final = "playbook.md#keychain-credentials"
KINDS_AT: Final = "playbook.md#kinds-of-credentials"
SCOPES: Final = ("local", "shared", "global")
GRANTS: Final = ("client_credentials", "refresh_token", "password")
_TEXT: Final = Anything("text")
_MAP: Final = Values(whole=True)

NAME: Final = Field("name", Name("a credential"), "Templates read its fields as `keychain.<name>.<field>`.", required=True)
KIND: Final = Field(
    "kind", Text(), "The kind of credential, such as `postgres_credential` or `oauth2`.", required=True, link=KINDS_AT
)
STORED: Final = Field("credential", _TEXT, "The name under which the credential is stored.", otherwise="the `name` of the entry")
_OF_GRANT: Final = STORED._replace(
    otherwise="the `name` of the entry, if it has none of `token_url`, `client_id`, `data` and `json`"
)
SCOPE: Final = Field(
    "scope",
    Choice(SCOPES),
    "The executions that share a fetched value: only this one (`local`), those of its tree of sub-playbooks (`shared`), or all"
    " (`global`).",
    default="local",
    label="scope of {}",
)
TTL: Final = Field(
    "ttl", Duration(DELAY), "The time for which a fetched value may be used.", otherwise="what the source of the value states"
)
RENEW: Final = Field(
    "auto_renew",
    Flag(),
    "false fetches no new token: calls with an expired one fail.",
    default=True,
    label="auto_renew of {}",
)
_DESC: Final = Field("desc", Prose(), "Describes the credential for readers.")
_ALSO: Final = (
    another(TTL, "expires_in"),
    another(TTL, "cache_ttl"),
    another(_DESC, "description"),
)
_ALWAYS: Final = (NAME, KIND, SCOPE, TTL, RENEW, _DESC, *_ALSO)

CREDENTIAL: Final = Block(
    "credential",
    "One credential that the playbook needs. Some kinds have options of their own.",
    PAGE,
    NAME,
    KIND,
    STORED,
    SCOPE,
    TTL,
    RENEW,
    _DESC,
    open=True,
)


def _elsewhere(name: str, what: str) -> Field:
    return Field(name, Anything("anything"), f"{what} Accepted without effect.", effect=False, label=f'"{name}" of {{}}')


_TOKEN_URL: Final = Field("token_url", _TEXT, "The address that issues the token.")
_REQUEST: Final = (
    *also(_TOKEN_URL, "endpoint", "url", "token_endpoint"),
    Field(
        "method",
        Choice(("POST", "GET", "PUT", "post", "get", "put"), template=True),
        "The method of the request for the token.",
        default="POST",
        label="method of {}",
    ),
    Field("headers", _MAP, "Headers of the request for the token."),
    Field("params", _MAP, "Query parameters of the request for the token."),
    *also(
        Field("data", _MAP, "The body of the request for the token, sent as a form.", otherwise="made of the other fields"),
        "form",
        "body",
    ),
    *also(Field("json", _MAP, "The body of the request for the token, sent as JSON."), "payload"),
    *also(
        Field("token_field", _TEXT, "The path of the token in the answer; dots separate its parts.", default="access_token"),
        "token_path",
        "token_key",
    ),
    Field(
        "expires_field", _TEXT, "The path of the token's lifetime (seconds until it expires) in the answer.", default="expires_in"
    ),
)

STATIC: Final = Block(
    "static_credential",
    "Values given in the playbook, usually templates over the workload. All other keys of the entry are values of the"
    " credential, too.",
    KINDS_AT,
    *_ALWAYS,
    *also(Field("data", _MAP, "The fields of the credential, by name."), "values", "map"),
    open=True,
)
CREDENTIAL_REF: Final = Block(
    "credential_ref_credential",
    "A stored credential under another name.",
    KINDS_AT,
    *_ALWAYS,
    *also(STORED, "ref", "credential_ref", "credential_name", "key"),
    _elsewhere("type", "The type of the credential: its own is used."),
    open=True,
)
SECRET_MANAGER: Final = Block(
    "secret_manager_credential",
    "One or more secrets in the store from which the deployment reads credentials.",
    KINDS_AT,
    *_ALWAYS,
    *also(STORED, "secret", "secret_name", "secret_id", "path", "key"),
    Field(
        "map",
        _MAP,
        "Several secrets: a mapping of the credential's fields to the names under which the secrets are stored.",
        otherwise="one secret, with all of its fields",
    ),
    Field("field", _TEXT, "The one field of the secret to use.", otherwise="all fields"),
    _elsewhere("provider", "Which store it is: the deployment has one."),
    _elsewhere("auth", "How to open the store: the worker's role is used."),
    _elsewhere("region", "Where the store is."),
    _elsewhere("project", "Whose store it is."),
    _elsewhere("project_id", "Whose store it is."),
    _elsewhere("version", "Which version of the secret: the current one is read."),
    open=True,
)
BEARER: Final = Block(
    "bearer_credential",
    "A token for the header `Authorization`: given, stored, or fetched with a request.",
    KINDS_AT,
    *_ALWAYS,
    *also(_OF_GRANT, "auth", "ref"),
    Field("token", _TEXT, "The token itself, usually a template.", otherwise="the field `token` of the stored credential"),
    *_REQUEST,
    _elsewhere("provider", "Who issues the token."),
    open=True,
)
OAUTH2: Final = Block(
    "oauth2_credential",
    "An access token that is fetched when needed, and again before it expires.",
    KINDS_AT,
    NAME,
    KIND,
    SCOPE._replace(
        type=Anything("`local`, `shared` or `global`; any other text becomes the value of `scopes`"),
        doc=SCOPE.doc + " Any other text becomes the value of `scopes`.",
        label="",
    ),
    TTL,
    RENEW,
    _DESC,
    *_ALSO,
    *also(
        _OF_GRANT._replace(doc="A stored credential. Its fields are used where the entry omits them."),
        "auth",
        "ref",
    ),
    *_REQUEST,
    Field(
        "grant_type",
        Choice(GRANTS, template=True),
        "The grant that is exchanged for the token.",
        otherwise="`refresh_token` if one is given, `password` if a `username` is given, else `client_credentials`",
        label="grant_type of {}",
    ),
    Field("client_id", _TEXT, "The id of the client."),
    Field("client_secret", _TEXT, "The secret of the client, usually a template over `keychain`."),
    Field(
        "client_auth",
        Choice(("body", "basic")),
        "Where the client's id and secret are sent: in the body, or in the header `Authorization`.",
        default="body",
        label="client_auth of {}",
    ),
    Field("username", _TEXT, "The name of the user, for the grant `password`."),
    Field("password", _TEXT, "The password of the user, for the grant `password`."),
    Field("refresh_token", _TEXT, "The token that is exchanged, for the grant `refresh_token`."),
    Field("scopes", Anything("text, or a list of texts"), "The permissions that the token should have."),
    Field("audience", _TEXT, "The service that the token is for."),
    _elsewhere("provider", "Who issues the token."),
    open=True,
)

KEYCHAIN: Final[Mapping[str, Block]] = {
    "static": STATIC,
    "credential_ref": CREDENTIAL_REF,
    "secret_manager": SECRET_MANAGER,
    "bearer": BEARER,
    "oauth2": OAUTH2,
}
"""The kinds whose fields are known, by name."""
