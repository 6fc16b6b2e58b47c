"""`noetl migrate`: the two legacy dialects -> canonical v10 (spec README, canonical 13), comments and key order kept.

`tree` and `write` hold a document as it is written; `texts` changes names in expressions; `evals`, `routes` and `steps` rewrite
the eval dialect (`eval`, `expr`, `step.when`, `vars`, `next: []`), `acts`, `cases` and `overrides` the case dialect
(`case/when/then`); `document` puts it together. Nothing here runs a playbook, and nothing that runs one imports this.
"""

from noetl_core.dsl.migrate.document import Migrated, migrate

__all__ = ["Migrated", "migrate"]
