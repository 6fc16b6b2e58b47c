"""Accepted spellings that are more than an alternative name of a key: they are rewritten to the canonical form before the model
is read.

* `variants` replaces accepted spellings in template text, `boundaries` those in arcs and admission, both by `replacing`;
  `edits` changes a document and records what it changed; `noetl migrate` makes the recorded changes in the text.
* `flow` rewrites steps and routers, `roots` the other sections, `tasks` one task: `spellings` the inputs of single kinds, with
  `parameters` of SQL and `shell_lines`; `programs` names that Python code reads, and `code_templates` in it; `key_values` a task
  of another service that `kv` stands for.
* `retries` and `assertions` make rules of a policy (`policies`) of what stands beside a task, with `conditions` and `scalars` for
  what is written there; `writes` decides where `set` without a scope writes, `outputs` what names of parts of results mean.

`docs/language/migrate.md` has the table of accepted spellings. Nothing here knows how anything is executed.
"""

from noetl_core.dsl.dialect.edits import Edit, Edits
from noetl_core.dsl.dialect.flow import rewrite_playbook

__all__ = ["Edit", "Edits", "rewrite_playbook"]
