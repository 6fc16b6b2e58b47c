"""The language: from YAML text to the model of a playbook, with everything an author is told before a run.

* `load` reads YAML with positions; `parse` (with `steps`, `loops`, `tasks`, `policy`, `specs`, `sugar`, `variants`, `inputs`)
  builds the
  `model`; `templates` and `references` check what the structure alone cannot show; `diagnostics` are the findings.
* `kinds` and `numbers` are tables: the inputs of each tool kind, and the range of each number. `schema` and `dump` use them
  too.
* `lint` reports what is probably a mistake in a valid playbook.

Pure. How a playbook is executed is not known here (`engine`, `worker`), and templates are only compiled (`expr` evaluates
them).
"""
