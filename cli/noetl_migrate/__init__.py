"""Rewrites the two older dialects of the language, and the spellings of the field, to the canonical form (v10); comments and the
order of keys are kept.

* `tree`, `reading` and `write` hold a document as it is written. `texts` changes names in expressions.
* `evals`, `routes` and `steps` rewrite the eval dialect (`eval`, `expr`, `step.when`, `vars`, `next: []`).
* `case_entries`, `entries`, `cases`, `exits` and `overrides` rewrite the case dialect (`case/when/then`), by what its `names`,
  `words` and `results` mean.
* `dialect` makes the changes in the text that the reader makes before it reads.
* `document` rewrites a whole playbook with them; `context` is what they share.
* `formatting` brings a playbook of any dialect into the layout of `noetl fmt`.

Nothing here runs a playbook, and nothing that runs one imports this package: only `noetl migrate`, `fmt` and `new` do.
"""

from noetl_migrate.document import Migrated, migrate

__all__ = ["Migrated", "migrate"]
