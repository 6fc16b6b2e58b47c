"""What can go wrong in a template.

`TemplateError` (its `kind` says what the task fails with; who acts: the author)
  * `TemplateSyntaxError`: the text does not parse; found at validation, with its position (resolution 15).
  * `UndefinedValue`: a whole value is undefined and nothing supplied a default (resolution 15).
    * `NoSuchName`: what the keychain does not hold was read.
  * `LimitExceeded`: kind `limit`; the evaluation asked for more operations, memory, time or depth than it may have.
  * `NoCredential`, `CredentialRefused`: kinds `not_found` and `auth`; the keychain's is not there, or not for this playbook.

Exceptions raised by a scope's `resolve` are not in this tree: they pass through unchanged.
"""

from __future__ import annotations

from typing import ClassVar, Literal


class TemplateError(Exception):
    """An evaluation failed. `message` names the template and what to do; `kind` is the `outcome.error.kind` it becomes."""

    kind: ClassVar[Literal["template", "limit", "schema", "not_found", "auth"]] = "template"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TemplateSyntaxError(TemplateError):
    """The text is not a template. `line` and `column` count from 1 within the text."""

    def __init__(self, message: str, line: int = 1, column: int = 1, hint: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.hint = hint

    @property
    def offset_line(self) -> int:
        """Lines to add to the position where the text begins (counts from 0)."""
        return self.line - 1

    @property
    def offset_col(self) -> int:
        """Columns to add on that line (counts from 0)."""
        return self.column - 1


class UndefinedValue(TemplateError):
    """A value that must be there is undefined."""


class NoSuchName(UndefinedValue):
    """A credential, or a field of one, that is not there. Its message holds names alone: it is shown where a secret was read."""


class NoCredential(TemplateError):
    """A credential that is read is not there."""

    kind = "not_found"


class CredentialRefused(TemplateError):
    """A credential that is read is not for this playbook."""

    kind = "auth"


class LimitExceeded(TemplateError):
    """The evaluation exceeded a budget."""

    kind = "limit"
