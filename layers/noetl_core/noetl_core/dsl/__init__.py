"""The language: from YAML text to the model of a playbook, with everything an author is told before a run.

* `load` reads YAML with positions (`scalars` are its plain values); `parse` (with `reader`, `steps`, `loops`, `cursors`,
  `tasks`, `policy`, `limits`, `specs`, `sugar`, `variants`, `inputs`, `keychain`, `requirements`, `failures`, `search`,
  `scripts`, `shared`, `called_playbooks`, `nested`, `transfers`, `triggers`, `ways_in`) builds the `model`, of which
  `sources` are what triggers fire on; `templates`, `references`, `programs` and `secret_results` check what the structure
  alone cannot show; `diagnostics` are the findings, `positions` says where parts of a text stand.
* `fields`, `kinds` and `numbers` are tables: every key of the language, the keys of each tool kind that belong together, and the
  range of each number. `schema` (with `schema_types`) and `dump` use them too.
* `dialect` rewrites accepted spellings that are more than another name of a key, before `parse` reads on.
* `keychain_uses` says which credentials a playbook reads, `versions` which version of a playbook a text means.
* `lint` reports what is probably a mistake in a valid playbook.

Pure. How a playbook is executed is not known here (`engine`, `worker`), and templates are only compiled (`expr` evaluates
them).
"""
