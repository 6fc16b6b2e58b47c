"""Lint: findings with which a playbook still runs (W5xx), about its Petri net, its pipelines, its names and its secrets.

`lint` examines a valid playbook; `without_ignored` removes what the author has silenced. Pure, and nearly linear in the size of
the playbook. `graph` has the algorithms, `guards` decides about conditions without running them, `net` has the steps and arcs
with the facts known about them, `context` is shared by the rules, `ignore` reads the comments of authors. The rules are in
`reach`, `tokens`, `admission`, `pipelines`, `rules`, `long_loops`, `names` (with `results`, `unused`, and `typed` over the
`shapes` of values), `programs`, `urls`, `sql` (with `sql_text`), `foreign`, `children` and `secrets`.

Every code has a page, docs/language/lint/<code>.md, whose examples are its tests. A rule reports nothing when it
is in doubt. Errors (E1xx to E3xx) are found in `dsl.parse` and the modules it uses.
"""

from __future__ import annotations

from contextlib import suppress

from noetl_core.dsl.lint.admission import admissions
from noetl_core.dsl.lint.children import Called, children, trigger_payloads
from noetl_core.dsl.lint.context import Lint
from noetl_core.dsl.lint.foreign import foreign
from noetl_core.dsl.lint.graph import OverBudget
from noetl_core.dsl.lint.guards import Guards
from noetl_core.dsl.lint.ignore import without_ignored
from noetl_core.dsl.lint.long_loops import loops
from noetl_core.dsl.lint.names import names
from noetl_core.dsl.lint.net import Net
from noetl_core.dsl.lint.pipelines import pipelines
from noetl_core.dsl.lint.programs import programs
from noetl_core.dsl.lint.reach import dead_arcs, unreachable_steps
from noetl_core.dsl.lint.rules import policies
from noetl_core.dsl.lint.secrets import secrets
from noetl_core.dsl.lint.sql import statements
from noetl_core.dsl.lint.tokens import growth, joins, meetings
from noetl_core.dsl.lint.unused import unused_credentials
from noetl_core.dsl.lint.urls import urls
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.reading.reader import Reader

__all__ = ["Called", "lint", "payloads", "without_ignored"]


def lint(r: Reader, playbook: Playbook, called: Called | None = None) -> None:
    """Report probable mistakes in the valid playbook that `r` has read. `called` finds the playbooks that it calls."""
    assert r.loaded.root is not None
    guards = Guards(r.compiled, strict=r.strict)
    context, net = Lint(r, r.loaded.root, playbook, guards), Net(playbook, guards)
    unreachable_steps(context, net)
    dead_arcs(context, net)
    growth(context, net)
    for rule in (joins, admissions, meetings):
        with suppress(OverBudget):
            rule(context, net)
    pipelines(context)
    policies(context)
    loops(context)
    names(context, called)
    programs(context)
    urls(context)
    statements(context)
    trigger_payloads(context)
    foreign(context)
    if called is not None:
        children(context, called)
    secrets(context)
    unused_credentials(context)


def payloads(r: Reader, playbook: Playbook, called: Called) -> None:
    """Report payloads that called playbooks do not take, and nothing else."""
    assert r.loaded.root is not None
    children(Lint(r, r.loaded.root, playbook, Guards(r.compiled, strict=r.strict)), called)
