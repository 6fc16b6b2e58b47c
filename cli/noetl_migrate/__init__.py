"""Rewrites the two older dialects of the language to the canonical one (v10); comments and the order of keys are kept.

* `tree`, `reading` and `write` hold a document as it is written. `texts` changes names in expressions.
* `evals`, `routes` and `steps` rewrite the eval dialect (`eval`, `expr`, `step.when`, `vars`, `next: []`).
* `case_entries`, `cases` and `overrides` rewrite the case dialect (`case/when/then`).
* `document` rewrites a whole playbook with them.

Nothing here runs a playbook, and nothing that runs one imports this package: only `noetl migrate` does.
"""

from noetl_migrate.document import Migrated, migrate

__all__ = ["Migrated", "migrate"]
