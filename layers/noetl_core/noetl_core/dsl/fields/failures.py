"""`executor.spec.on_failure`: the recipient of failures."""

from __future__ import annotations

from typing import Final

from noetl_core.dsl.fields.types import Block, Choice, Field, Flag, Text

ON_FAILURE: Final = Block(
    "on_failure",
    "Who is notified that an execution of the playbook has failed: a playbook, an address or a topic. It replaces the"
    " stack's default.",
    "../failures.md",
    Field("playbook", Text(), "The playbook that is started, as `path`, `path@3` or `path@prod`."),
    Field("webhook", Text(), "The address to which the failure is posted as JSON."),
    Field("sns", Text(), "The topic to which the failure is published: a name or an ARN."),
    Field("credential", Text(), "For `webhook`: the credential, as `auth` of `kind: http` takes it."),
    Field(
        "also",
        Choice(("warnings",)),
        "With `warnings`, executions that completed with [warnings](../warnings.md) are notified, too.",
    ),
    Field("disabled", Flag(), "true notifies nobody, not even the stack's default."),
    prefix="on_failure of ",
)

HANDLERS: Final = ("playbook", "webhook", "sns", "disabled")
"""Exactly one of these is there."""
