"""Errors of templates.

`TemplateError` (its `kind` is the error kind of the task; who acts: the author)
  * `TemplateSyntaxError`: the text cannot be parsed; validation reports it with its position (resolution 15).
  * `UndefinedValue`: a whole value is undefined and has no default (resolution 15).
    * `NoSuchName`: the template read something that the keychain does not have.
  * `LimitExceeded`: kind `limit`; the evaluation exceeded its operations, memory, time or depth.
  * `NoCredential`, `CredentialRefused`: kinds `not_found` and `auth`; the credential does not exist, or this playbook may not
    read it.
  * `CredentialFailed`: with a kind of its own; the fields of a credential are wrong, or a service refused the token.

Exceptions that a scope's `resolve` raises are not in this tree: they pass through unchanged.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "template", "limit", "schema", "not_found", "auth", "timeout", "connection", "rate_limit", "server_error", "client_error",
    "parse", "storage", "unknown",
]  # fmt: skip
"""Error kinds of failed evaluations."""


class TemplateError(Exception):
    """An evaluation failed. `message` names the template and the remedy; `kind` becomes `outcome.error.kind`."""

    kind: Kind = "template"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def saying(self, message: str) -> TemplateError:
        """Return the same error with another message."""
        return type(self)(message)


class TemplateSyntaxError(TemplateError):
    """The text is not a valid template. `line` and `column` count from 1 within the text."""

    def __init__(self, message: str, line: int = 1, column: int = 1, hint: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.hint = hint


class UndefinedValue(TemplateError):
    """A required value is undefined."""


class NoSuchName(UndefinedValue):
    """A credential, or a field of one, that does not exist. The message contains only names, because it is shown although a
    secret was read."""


class NoCredential(TemplateError):
    """A credential that a template reads does not exist."""

    kind = "not_found"


class CredentialRefused(TemplateError):
    """This playbook may not read the credential."""

    kind = "auth"


class LimitExceeded(TemplateError):
    """The evaluation exceeded a budget."""

    kind = "limit"


class CredentialFailed(TemplateError):
    """An entry of the keychain cannot be resolved: its fields are wrong, or a service refused the token."""

    def __init__(self, message: str, kind: Kind) -> None:
        super().__init__(message)
        self.kind = kind

    def saying(self, message: str) -> TemplateError:
        return CredentialFailed(message, self.kind)
