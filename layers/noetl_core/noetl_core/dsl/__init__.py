"""The language: from YAML text to the model of a playbook, with all diagnostics that an author gets before a run.

* `reading` turns text into nodes with positions. `parse` builds the `model` from them, with `sections` (the parts of a playbook
  beside its steps), `steps` and `inputs` (the workload). `sources` are the sources of triggers.
* `templates` and `references` check what the structure alone cannot show.
* `fields`, `kinds` and `numbers` are tables: every key of the language, the keys of each tool kind that belong together, and the
  range of each number. `schema` (with `schema_types`) and `dump` use them too.
* `dialect` rewrites accepted spellings that are more than another name of a key, before `parse` continues.
* `derived` keeps what other modules compute of a playbook; `keychain_uses` returns the credentials that it reads; `versions`
  parses references to versions.
* `lint` reports probable mistakes in a valid playbook.

Pure. How a playbook is executed is not known here (`engine`, `worker`), and templates are only compiled (`expr` evaluates
them).
"""
