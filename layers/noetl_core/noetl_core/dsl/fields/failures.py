"""`executor.spec.on_failure`: what is told that an execution has failed."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.types import Block, Field, Flag, Text

ON_FAILURE: Final = Block(
    "on_failure",
    "What is told that an execution of the playbook has failed: a playbook, an address or a topic. It takes the place of what the"
    " stack tells by default.",
    "../failures.md",
    Field("playbook", Text(), "The playbook that is started, as `path`, `path@3` or `path@prod`."),
    Field("webhook", Text(), "The address to which the failure is posted as JSON."),
    Field("sns", Text(), "The topic to which the failure is published: a name or an ARN."),
    Field("credential", Text(), "Of a `webhook`: the credential that it needs, as `auth` of `kind: http` takes it."),
    Field("disabled", Flag(), "true tells nobody, not what the stack tells by default either."),
    prefix="on_failure of ",
)

HANDLERS: Final = ("playbook", "webhook", "sns", "disabled")
"""Exactly one of these is there."""
